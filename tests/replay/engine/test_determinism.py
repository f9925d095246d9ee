"""The same replay gives the same bytes in every process and thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bellwether.replay.engine import Session, Settings
from bellwether.replay.units import SECOND
from tests.replay.engine.small_tapes import LIVE, busy_tape
from tests.replay.engine.test_growth import follow


def digest() -> str:
    opened = Session(busy_tape(), LIVE, Settings(cadence=SECOND))
    opened.run_compiled(follow, np.array([200, 0]))
    assert len(opened.fills) > 100
    return opened.result().digest()


def test_sessions_in_threads_do_not_disturb_each_other() -> None:
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: digest(), range(8))) == {digest()}
