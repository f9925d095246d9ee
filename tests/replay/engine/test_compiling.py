"""Compiled code is cached for the sources it was made of."""

from __future__ import annotations

from numba import njit

from bellwether.replay.engine import commands
from bellwether.replay.engine.compiling import SOURCES, stamped


def test_what_is_cached_is_compared_with_all_sources_of_the_engine() -> None:
    assert commands.command._cache._cache_file._source_stamp[-1] == SOURCES


def test_a_strategy_of_another_file_is_tied_to_them_once() -> None:
    @njit(cache=True)
    def strategy(sim, params):
        return None

    before = strategy._cache._cache_file._source_stamp  # type: ignore[attr-defined]
    assert stamped(stamped(strategy))._cache._cache_file._source_stamp == (before, SOURCES)  # type: ignore[attr-defined]


def test_a_strategy_that_is_not_cached_is_left_alone() -> None:
    plain = njit(lambda sim, params: None)
    assert stamped(plain) is plain
