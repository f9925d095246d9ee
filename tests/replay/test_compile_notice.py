"""Whoever waits for the compiler is told so, once, and nobody else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numba import njit

from bellwether.replay.compile_notice import NOTICE, compile_notice


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
