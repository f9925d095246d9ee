"""Module that loads the compiled engine into the server process of a sweep, from which worker processes are forked.

With an empty cache of compiled code, the engine is compiled here once instead of in every worker.
"""

from __future__ import annotations

import gc
import sys
import time

import numpy as np

from bellwether.replay.agents.baselines import Passive
from bellwether.replay.backtest import BacktestSettings, run
from bellwether.replay.compile_notice import compile_notice
from bellwether.replay.engine.codes import F_COLS
from bellwether.replay.results.exposure import exposure
from bellwether.replay.results.markouts import markouts
from bellwether.replay.results.metrics import HORIZONS, metrics
from bellwether.replay.rules import rule_sets
from bellwether.replay.tape.layout import CLOSE, LEVEL, Tape, pack
from bellwether.replay.units import CONTRACT, NO, SECOND, YES


def _warm() -> None:
    words = [pack(LEVEL, 0, YES, 45, CONTRACT), pack(LEVEL, 0, NO, 50, CONTRACT), pack(CLOSE, 0, 0, 0, 0)]
    tape = Tape(np.array([0, 0, SECOND], np.int64), np.array(words, np.int64), ("WARM",), 0, SECOND)
    metrics(run(tape, Passive(), BacktestSettings(rules=next(iter(rule_sets())))))
    # Not called for an agent without fills.
    fill = np.zeros((1, F_COLS), np.int64)
    exposure(tape, fill, apart=False)
    markouts(tape, fill, HORIZONS)


with compile_notice(lambda notice: sys.stderr.write(f"{notice}\n")):
    _warm()
# Workers fork from here: without freezing, their garbage collector would copy the loaded objects.
gc.freeze()
#: CPU seconds of this process so far; processes forked from it subtract them.
CPU = time.process_time()
