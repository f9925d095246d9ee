"""Isolated agents trade exactly as in the simulator's process, and an agent that cannot be isolated is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bellwether.errors import ConfigError
from bellwether.replay import CENT, AgentSource, Isolation, prepare, run
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.baselines import Passive
from bellwether.replay.agents.compiled_maker import CompiledMarketMaker
from bellwether.replay.agents.market_maker import MarketMaker
from bellwether.replay.isolation.settings import Confinement
from bellwether.replay.isolation.wire_protocol import MalformedMessage, check_request, encode_message
from bellwether.replay.registry import find_agent
from bellwether.replay.tape.layout import LEVEL, Tape
from bellwether.replay.units import NO, SECOND, YES
from cli.main import main
from tests.unit.replay.agents.scenes import TRADE, market, settings, tape
from tests.unit.replay.agents.test_context import with_series
from tests.unit.replay.episode.folders import Native
from tests.unit.replay.results.tapes import Event

FILE = Path(__file__).parent / "sample_agents.py"

WAYS: dict[str, dict[str, Any]] = {"at once": {}, "late": {"order_latency": SECOND}, "frozen": {"rules": "pmb-2026-01"}}
#: The package's quoting agent; two agents that make every call, one with callbacks; two that use up their budget of calls.
RUNS: list[tuple[Agent | AgentSource, str]] = [
    (MarketMaker(size=1), "at once"),
    *((AgentSource(f"{FILE}:Everything", {"seed": 3}), way) for way in WAYS),
    *((AgentSource(f"{FILE}:Listens", {"seed": 4}), way) for way in WAYS),
    (AgentSource(f"{FILE}:Greedy"), "at once"),
    (AgentSource(f"{FILE}:Runaway"), "at once"),
]


def frozen_market() -> Tape:
    """Return a market with every row of the book, as rules with frozen observations require: one decision per row."""
    levels: list[Event] = [
        (0, LEVEL, 0, YES, 45 * CENT, 10_000),
        (0, LEVEL, 0, NO, 52 * CENT, 5_000),
        (100, LEVEL, 0, YES, 40 * CENT, 100),
        TRADE,
        (200, LEVEL, 0, YES, 40 * CENT, 200),
        (250, LEVEL, 0, NO, 53 * CENT, 500),
    ]
    rows = np.array([0, 100, 200, 250], np.int64) * SECOND
    return replace(tape(*sorted(levels, key=lambda event: event[0]), end=300), rows_ts=rows, rows_end=np.array([2, 4, 5, 6], np.int64))


@pytest.mark.parametrize(
    ("agent", "way"), RUNS, ids=lambda value: getattr(value, "reference", getattr(value, "name", value)).rpartition(":")[2]
)
def test_fills_are_the_same_to_the_last_integer(agent: Agent | AgentSource, way: str) -> None:
    chosen = settings(cadence=10 * SECOND, **WAYS[way])
    source = with_series() if isinstance(agent, AgentSource) else prepare(market(TRADE, (200, *TRADE[1:])), chosen.rules)
    if way == "frozen":
        source = prepare(frozen_market(), chosen.rules)
    here, there = run(source, agent, chosen), run(source, agent, chosen, isolated=True)
    assert there.digest == here.digest, (here.failure, there.failure)
    assert np.array_equal(there.outcome.fills, here.outcome.fills)
    assert np.array_equal(there.outcome.orders, here.outcome.orders)
    assert (there.agent, there.parameters, there.failure) == (here.agent, here.parameters, here.failure)
    assert len(here.outcome.orders) > 0
    assert here.confinement is None
    assert there.confinement is not None


def test_a_failure_comes_back_with_its_traceback() -> None:
    for isolated in (False, True):
        failure = run(market(), AgentSource(f"{FILE}:Fails"), settings(), isolated=isolated).failure
        assert failure is not None
        assert (failure.type, failure.message, failure.step) == ("ZeroDivisionError", "division by zero", 2)
        assert "sample_agents.py" in failure.traceback
        assert "in _divide" in failure.traceback
        assert "backtest.py" not in failure.traceback
        assert "child.py" not in failure.traceback
        assert ("printed by it" in failure.traceback) == isolated


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (f"{CompiledMarketMaker.__module__}:CompiledMarketMaker", "compiled agents run within the simulator and cannot be isolated"),
        (f"{FILE}:Waits", "sends requests to a service such as a language model, and an isolated agent has no network"),
        (f"{FILE}:Nowhere", "Nowhere is not a subclass of Agent; its subclasses of Agent: Everything"),
        ("no_such_module:One", "the module no_such_module cannot be imported"),
        (f"{FILE}:BadName", "give it one of at most 100 printable characters"),
    ],
    ids=lambda value: value.rpartition(":")[2],
)
def test_an_agent_that_cannot_be_isolated_is_refused_by_name_and_fails_in_a_run(reference: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_agent(reference, isolated=Isolation())
    failure = run(market(), AgentSource(reference), settings(), isolated=True).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("ConfigError", -1)
    assert message in failure.message


def test_wrong_parameters_fail_the_agent_before_its_first_decision() -> None:
    failure = run(market(), AgentSource(f"{FILE}:Everything", {"colour": 1}), settings(), isolated=True).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("ConfigError", -1)
    assert "its parameters are seed" in failure.message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (CompiledMarketMaker(), "compiled agents run within the simulator and cannot be isolated"),
        (AgentSource("/nowhere/agents.py:One"), "the file /nowhere/agents.py does not exist"),
    ],
    ids=["compiled", "no file"],
)
def test_what_is_known_without_loading_the_agent_is_an_error(source: Agent | AgentSource, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(market(), source, settings(), isolated=True)


def test_a_class_that_another_process_cannot_load_is_refused() -> None:
    class Local(Passive):
        pass

    with pytest.raises(ConfigError, match="define it at the top of a module"):
        run(market(), Local(), settings(), isolated=True)


@pytest.mark.parametrize("params", [{"x": object()}, {"x": float("nan")}, {"x": (1, 2)}, {1: 2}])
def test_parameters_travel_as_json_or_not_at_all(params: dict[Any, Any]) -> None:
    with pytest.raises(ConfigError, match="not all JSON values"):
        AgentSource("a.py:A", params)


@pytest.mark.parametrize("wrong", [{"memory": 1}, {"memory": 2.0**31}, {"seconds_per_run": 0.0}, {"seconds_per_run": float("nan")}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Isolation(**wrong)


def test_what_holds_and_what_does_not_is_said() -> None:
    assert str(Confinement("seccomp", None, None, "RLIMIT_AS")) == (
        "kept from it: network (seccomp), memory (RLIMIT_AS); this system cannot keep from it: files, processes, names, sizes and times of files"
    )


def test_the_wire_carries_numbers_and_nothing_else() -> None:
    assert check_request(["place", 0, 1, 0, 45 * CENT, 100, 1, 0, "mine"]) == ("place", [0, 1, 0, 45 * CENT, 100, 1, 0, "mine"])
    name, (rows, tag) = check_request(["place_many", [[0, 1, 0, 45 * CENT, 100, 1, 0]], ""])
    assert (name, rows.dtype, rows.shape, tag) == ("place_many", np.int64, (1, 7), "")
    assert check_request(["place_many", [], ""])[1][0].shape == (0, 7)
    assert encode_message([np.arange(2), None])[4:] == b"[[0,1],null]"


@pytest.mark.parametrize(
    "message",
    [
        ["place", 0, 0, 0, 45 * CENT, True, 1, 0, ""],
        ["place", 0, 0, 0, 45 * CENT, 100, 1, 0, "x" * 65],
        ["place", 0, 0, 0, 45 * CENT, 100, 1, 0, "a\nb"],
        ["place", 0, 0, 0, 45 * CENT, 2**63, 1, 0, ""],
        ["place", 0, 0, 0, 45 * CENT],
        ["place_many", [[0, 0, 0, 45 * CENT, 1, 1]], ""],
        ["place_many", [[0, 0, 0, 45 * CENT, 1, 1, 0], [1]], ""],
        ["place_many", [[0, 0, 0, 45 * CENT, "1", 1, 0]], ""],
        ["quote_many", [[2**62, 0]], 100, 10, ""],
        ["cancel_many", [None]],
        ["begin"],
        ["__class__"],
        ["failed", 1, 2, 3],
        [],
        {},
        None,
    ],
    ids=str,
)
def test_the_wire_refuses_what_is_no_message(message: Any) -> None:
    with pytest.raises(MalformedMessage):
        check_request(message)


MINE = """
from bellwether.replay import Agent
open({trace!r}, "a").write("loaded ")
class Mine(Agent):
    def act(self, ctx):
        pass
"""


def test_the_command_does_not_load_the_file_in_its_own_process(tmp_path: Path) -> None:
    trace, mine = tmp_path / "trace", tmp_path / "mine.py"
    mine.write_text(MINE.format(trace=str(trace)))
    assert find_agent(f"{mine}:Mine", isolated=Isolation()).name == "mine"
    failure = run(market(), AgentSource(f"{mine}:Mine"), settings(), isolated=True).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("OSError", -1)
    assert "mine.py" in failure.traceback
    assert not trace.exists()


@pytest.mark.slow
def test_a_sweep_isolates_too(tmp_path: Path) -> None:
    episode = Native().write(tmp_path / "KXTEST-26JAN20")
    words = ["backtest", "--agent", "market-maker", "--episode", str(episode), "--cadence", "5", "--grid", "spread_cents=2,4", "--json"]
    here, there = (CliRunner().invoke(main, [*words, "--jobs", "2", *more]) for more in ((), ("--isolated",)))
    assert there.exit_code == 0, there.output
    assert here.stdout == there.stdout
    assert "Isolated agents: kept from it: " in there.stderr
    assert "Isolated agents: " not in here.stderr
