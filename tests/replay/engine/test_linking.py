"""The engine is compiled once, as one entry; strategies call it by its address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import pytest
from numba import njit

from bellwether.replay.compile_notice import NOTICE, compile_notice
from bellwether.replay.engine import commands, compiling
from bellwether.replay.engine import kernel as k
from bellwether.replay.engine.codes import O_NEXT, O_PRICE, O_STATUS, Status, Tif
from bellwether.replay.engine.compiling import SOURCES
from bellwether.replay.engine.kernel import next_step, place, strategy, tickers
from bellwether.replay.units import BUY, YES
from tests.replay.engine.small_tapes import BOOK, finish, level, session, tape

GTC = int(Tif.GTC)

RUN = """
import numpy as np
from numba.core import event
from tests.replay.engine.small_tapes import busy_tape, LIVE
from bellwether.replay.engine import Session, Settings
from tests.replay.engine.test_growth import follow
with event.install_recorder("numba:compile") as recorder:
    opened = Session(busy_tape(), LIVE, Settings(cadence=10**9, bankroll=10**12))
    opened.run_compiled(follow, np.array([200, 0]))
print(opened.result().digest(), len(recorder.buffer))
"""


@strategy
def look(sim, seen):
    """Order two lots of bids, then write down what every function that reads says."""
    next_step(sim)
    first = place(sim, 0, YES, BUY, 440, 300, GTC, 0)
    second = place(sim, 0, YES, BUY, 430, 200, GTC, 0)
    crossing = place(sim, 0, YES, BUY, 550, 100, GTC, 0)
    seen[0], seen[1], seen[2] = tickers(sim), k.now(sim), k.step_index(sim)
    seen[3], seen[4], seen[5] = k.cash(sim), k.available(sim), k.equity(sim)
    seen[6], seen[7] = k.best_bid(sim, 0, 0), k.best_bid(sim, 0, 1)
    seen[8], seen[9] = k.displayed(sim, 0, 0, 450), k.position(sim, 0, 0)
    seen[10], seen[11] = k.ticker_status(sim, 0), k.order_status(sim, crossing)
    seen[12], seen[13] = k.order_price(sim, second), k.remaining(sim, first)
    seen[14], seen[15] = k.resting_count(sim, -1), k.first_resting(sim, 0, 0)
    seen[16], seen[17] = k.next_resting(sim, first), k.order_status(sim, -1)
    seen[18] = k.cancel(sim, second)


def test_a_strategy_reads_what_python_reads() -> None:
    events = (*BOOK, level(9, YES, 450, 700))
    compiled_run, python = session(tape(*events)), session(tape(*events))
    seen = np.full(19, -9, np.int64)
    # `session` is at the first decision already: the strategy begins with the second.
    compiled_run.run_compiled(look, seen)
    python.step()
    first, second, crossing = (python.place(0, YES, BUY, price, lots) for price, lots in ((440, 300), (430, 200), (550, 100)))
    orders = python.orders
    assert seen.tolist() == [
        len(python.best),
        python.now,
        python.step_index,
        python.cash,
        python.available,
        python.equity(),
        *python.best[0].tolist(),
        python.book[0, 0, 450],
        python.positions[0, 0],
        python.status[0],
        orders[crossing, O_STATUS],
        orders[second, O_PRICE],
        300,
        len(python.resting()),
        first,
        orders[first, O_NEXT],
        -1,
        True,
    ]
    assert orders[crossing, O_STATUS] == Status.FILLED
    python.cancel(second)
    assert compiled_run.result().digest() == finish(python).result().digest()


@njit
def with_an_array(sim, params):
    """A strategy that is not under `@strategy` may make arrays."""
    prices = np.arange(440, 443)
    for price in prices:
        place(sim, 0, YES, BUY, price, 100, GTC, 0)


def test_a_function_that_makes_arrays_can_call_the_engine_too() -> None:
    opened = session(tape(*BOOK))
    opened.run_compiled(with_an_array, np.zeros(1, np.int64))
    assert opened.orders[:, O_PRICE].tolist() == [440, 441, 442]


def test_processes_share_what_is_compiled_whatever_they_import_first() -> None:
    with redirect_stdout(StringIO()) as here:
        exec(RUN, {})
    answers = [here.getvalue().split()]
    for first in ("import tests.replay.engine.test_growth", "from bellwether.replay.engine import commands; commands.entry()"):
        done = subprocess.run([sys.executable, "-c", first + RUN], capture_output=True, text=True, check=True)
        answers.append(done.stdout.split())
    assert len({digest for digest, _ in answers}) == 1
    assert [int(compiled) for _, compiled in answers[1:]] == [0, 0]


def test_the_entry_is_cached_for_the_sources_it_was_made_of() -> None:
    commands.entry()
    assert [entry._cache._cache_file._source_stamp[-1] for entry in compiling._entries] == [SOURCES]  # type: ignore[attr-defined]


def test_the_cache_of_a_users_strategy_depends_on_the_engine_once() -> None:
    cached: Any = njit(cache=True)(look.py_func)
    before = cached._cache._cache_file._source_stamp
    assert compiling.stamped(compiling.stamped(cached))._cache._cache_file._source_stamp == (before, SOURCES)


# Whoever waits for the compiler is told so, once, and nobody else is


def function(module: str) -> Callable[[int], int]:
    """A function of a module of this name, which is compiled when it is first called."""
    names: dict[str, Any] = {"__name__": module}
    exec("def plus_one(x):\n    return x + 1", names)
    return njit(names["plus_one"])


def test_it_is_told_once_and_before_the_first_function_is_done() -> None:
    told: list[str] = []
    first, second = function("bellwether.replay.engine.kernel"), function("bellwether.replay.tape.kernels")
    with compile_notice(told.append):
        assert not told
        assert (first(1), second(1)) == (2, 2)
    assert told == [NOTICE]


def test_nothing_is_told_of_what_is_compiled_already() -> None:
    told: list[str] = []
    compiled = function("bellwether.replay.engine.kernel")
    compiled(1)
    with compile_notice(told.append):
        compiled(2)
    function("bellwether.replay.engine.kernel")(1)
    assert told == []


@pytest.mark.parametrize("module", ["my_agents", "bellwether.replayed"])
def test_nothing_is_told_of_the_functions_of_others(module: str) -> None:
    told: list[str] = []
    with compile_notice(told.append):
        function(module)(1)
    assert told == []
