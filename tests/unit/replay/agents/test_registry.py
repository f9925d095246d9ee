"""Agents found by name, in a registry or a file, with their parameters and seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, AgentSource, cents, contracts
from bellwether.replay.agents.agent import callbacks_of, derive_seed
from bellwether.replay.agents.builtin import Passive
from bellwether.replay.agents.loader import load_agent_class
from bellwether.replay.registry import agents, find_agent
from bellwether.replay.units import SECOND

MINE = '''"""Mine."""
from bellwether.replay import Agent

class Mine(Agent):
    """Does this.

    And that.
    """

    def __init__(self, size: int = 1) -> None: ...
    def act(self, ctx): ...

class Other: ...
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_file.py"
    path.write_text(MINE)
    return path


AGENT = "class {}({}):\n    def act(self, ctx): ...\n"
IMPORTS = "from bellwether import replay\nfrom bellwether.replay import Agent\n"


def test_a_file_without_exactly_one_agent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    two = IMPORTS + AGENT.format("First", "Agent") + AGENT.format("Second", "Agent")
    for source in (None, two, IMPORTS, "class :", "x = " + "(" * 5000, "exit(3)", "raise ValueError('no\\nway')"):
        if source is not None:
            path.write_text(source)
        with pytest.raises(ConfigError):
            find_agent(str(path))
        with pytest.raises(ConfigError):
            load_agent_class(f"{path}:Mine")
    with pytest.raises(ConfigError, match="did you mean random"):
        find_agent("rando")


def registered(folder: Path, text: str) -> Path:
    (folder / "agents.toml").write_text(text)
    return folder


def test_an_entry_may_ask_for_a_process_of_its_own(file: Path) -> None:
    found = agents(registered(file.parent, '[mine]\nagent = "my_file.py:Mine"\nisolated = true\nparams = { size = 2 }\n'))
    assert (found["mine"].isolated, found["passive"].isolated) == (True, False)
    assert found["mine"].source() == AgentSource(f"{file}:Mine", {"size": 2}, "mine")
    # The package shows an agent with callbacks.
    assert [name for name, entry in found.items() if callbacks_of(load_agent_class(entry.agent))] == ["pairs"]


def test_the_seeds_agents_have_its_parameters() -> None:
    found = agents()
    assert found["random"].source().make().params == {"trade_probability": 0.1, "max_position": 10, "max_size": 3}
    assert {"period": 20, "k": 2}.items() <= found["bollinger"].source().make().params.items()
    assert found["momentum"].source().make().params == {"lookback": 10, "threshold_cents": 3, "max_position": 5}
    assert found["spread-capture"].source().make().params == {"min_spread_cents": 10, "limit": 5}
    assert found["random"].cadence is None
    assert found["market-maker"].cadence == 60 * SECOND


#: Wrong entry -> word of the error.
WRONG = {
    '[mine]\nagent = "other.py:Mine"\n': "other.py",
    '[mine]\nagent = "my_file.py"\n': "agent",
    '[mine]\nagent = "my_file.py:Mine"\ncadence_seconds = 0\n': "cadence_seconds",
    '[mine]\nagent = "my_file.py:Mine"\ncadence_seconds = inf\n': "cadence_seconds",
    '[mine]\nagent = "my_file.py:Mine"\nspread = 0\n': "spread",
    "[mine]\n": "agent",
    '[random]\nagent = "my_file.py:Mine"\n': "random",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_entry_is_named_with_its_field(tmp_path: Path, file: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=WRONG[text]):
        agents(registered(tmp_path, text))


# Identity of an agent: its name, its parameters, its seed


class HTTPBidder(Agent):
    def __init__(self, size: int, *, spread: float = 0.5, **more: str) -> None:
        self.size = size


def test_parameters_are_the_arguments_with_their_defaults() -> None:
    assert HTTPBidder(3, colour="red").params == {"size": 3, "spread": 0.5, "colour": "red"}
    assert Passive().params == {}


@pytest.mark.parametrize(("value", "price"), [(3, 300), ("0.1", 10), ("0.01", 1), (0.5, 50), (12.3, 1230)])
def test_cents_are_exact(value: float | str, price: int) -> None:
    assert cents(value) == price


@pytest.mark.parametrize("value", [0.005, "0.001", float("nan"), float("inf"), "many", True])
def test_what_is_finer_than_a_price_or_no_number_names_the_parameter(value: object) -> None:
    with pytest.raises(ConfigError, match="spread_cents"):
        cents(value, "spread_cents")  # type: ignore[arg-type]


def test_a_seed_is_the_same_on_every_machine_and_depends_on_all_three() -> None:
    seed = derive_seed("abc", "random", 7)
    assert f"{seed:064x}" == "922ddba0eedd8214b2dfee3870c3cccebcb26e565ed53aadad8f427b615d6209", (
        "as `printf 'abc\\nrandom\\n7' | sha256sum` has it"
    )
    assert len({seed, derive_seed("abd", "random", 7), derive_seed("abc", "randon", 7), derive_seed("abc", "random", 8)}) == 4


def test_contracts_are_exact_to_a_hundredth() -> None:
    assert (contracts(10), contracts("0.01")) == (1000, 1)
    with pytest.raises(ConfigError, match="a hundredth of a contract"):
        contracts(0.005)
