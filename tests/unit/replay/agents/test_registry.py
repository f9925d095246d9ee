"""Agents found by name, in a registry or a file, with their parameters and seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, AgentSource, Isolation, cents, contracts
from bellwether.replay.agents.agent import derive_seed, find_callbacks
from bellwether.replay.agents.baselines import Passive, RandomAgent
from bellwether.replay.agents.loader import load_agent_class
from bellwether.replay.registry import agents, find_agent
from bellwether.replay.units import SECOND

MINE = '''"""Mine."""
from bellwether.replay import Agent

class Mine(Agent):
    """Does this.

    And that.
    """

    api = 3

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


@pytest.mark.parametrize("isolated", [None, Isolation()])
def test_a_file_names_its_only_agent(file: Path, isolated: Isolation | None) -> None:
    found = find_agent(str(file), isolated=isolated)
    assert (found.name, found.agent) == ("mine", f"{file}:Mine")
    file.write_text(IMPORTS + AGENT.format("Base", "replay.Agent") + AGENT.format("Last", "Base") + AGENT.format("Helper", "dict"))
    assert find_agent(str(file), isolated=Isolation()).agent == f"{file}:Last"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            IMPORTS + AGENT.format("First", "Agent") + AGENT.format("Second", "Agent"),
            r"several agents, First, Second; name one as mine\.py:First",
        ),
        (IMPORTS, r"no class that derives from Agent; name one as mine\.py:Class"),
        ("class :", "SyntaxError: invalid syntax"),
        ("x = " + "(" * 5000, "correct the file"),
        (None, "No such file"),
    ],
)
def test_a_file_without_exactly_one_agent_is_refused_in_words(tmp_path: Path, source: str | None, said: str) -> None:
    path = tmp_path / "mine.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(ConfigError, match=said):
        find_agent(str(path))


def registered(folder: Path, text: str) -> Path:
    (folder / "agents.toml").write_text(text)
    return folder


def test_every_registered_agent_can_be_made_and_is_called_by_its_entry() -> None:
    for name, entry in agents().items():
        if name == "llm":
            continue
        agent = entry.make()
        assert isinstance(agent, Agent)
        assert agent.name == name
        assert entry.params.items() <= agent.params.items()
        assert entry.title
        assert entry.description


def test_an_entry_may_ask_for_a_process_of_its_own(file: Path) -> None:
    found = agents(registered(file.parent, '[mine]\nagent = "my_file.py:Mine"\nisolated = true\nparams = { size = 2 }\n'))
    assert (found["mine"].isolated, found["passive"].isolated) == (True, False)
    assert found["mine"].source() == AgentSource(f"{file}:Mine", {"size": 2}, "mine")
    # The package shows one agent, and one with callbacks.
    assert [name for name, entry in found.items() if entry.isolated] == ["spread-capture", "mine"]
    assert [name for name, entry in found.items() if find_callbacks(load_agent_class(entry.agent))] == ["pairs"]


def test_the_seeds_agents_have_its_parameters() -> None:
    found = agents()
    assert found["random"].make().params == {"trade_probability": 0.1, "max_position": 10, "max_size": 3}
    assert {"period": 20, "k": 2}.items() <= found["bollinger"].make().params.items()
    assert found["momentum"].make().params == {"lookback": 10, "threshold_cents": 3, "max_position": 5}
    assert found["spread-capture"].make().params == {"min_spread_cents": 10, "limit": 5}
    assert found["random"].cadence is None
    assert found["market-maker"].cadence == 60 * SECOND


def test_an_own_entry_stands_beside_its_file(tmp_path: Path, file: Path) -> None:
    entry = agents(registered(tmp_path, '[mine]\nagent = "my_file.py:Mine"\nparams = { size = 3 }\n'))["mine"]
    agent = entry.make(size=5)
    assert (agent.name, agent.params, type(agent).__name__) == ("mine", {"size": 5}, "Mine")


WRONG = [
    ('[mine]\nagent = "other.py:Mine"\n', r"agents\.toml: \[mine\] agent = 'other.py:Mine': the file .* is missing"),
    ('[mine]\nagent = "my_file.py"\n', r"\[mine\] agent"),
    ('[mine]\nagent = "my_file.py:Mine"\ncadence_seconds = 0\n', "cadence_seconds"),
    ('[mine]\nagent = "my_file.py:Mine"\ncadence_seconds = inf\n', "cadence_seconds"),
    ('[mine]\nagent = "my_file.py:Mine"\nspread = 0\n', "no such field"),
    ("[mine]\n", "is missing"),
    ('[random]\nagent = "my_file.py:Mine"\n', "already defined"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_entry_is_named_with_its_field(tmp_path: Path, file: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        agents(registered(tmp_path, text))


def test_a_class_of_a_file_needs_no_entry(file: Path) -> None:
    entry = find_agent(f"{file}:Mine")
    assert (entry.name, entry.description, entry.make().name) == ("mine", "Does this.", "mine")


MISSING = [
    ("rando", "did you mean random"),
    ("{file}:Nine", "subclasses of Agent: Mine"),
    ("{file}:Other", "subclasses of Agent: Mine"),
    ("{folder}/none.py:Mine", "does not exist"),
    ("no_such_module:Mine", "cannot be imported"),
    ("{file}:", "write my_file.py:MyAgent"),
]


@pytest.mark.parametrize(("name", "message"), MISSING)
def test_what_is_not_there_is_named_with_what_comes_close(tmp_path: Path, file: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_agent(name.format(file=file, folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "message"), [("1 +", "SyntaxError"), ("exit(3)", "SystemExit: 3"), ("raise ValueError('no\\nway')", "ValueError: no;")]
)
def test_a_file_that_cannot_be_imported_says_why(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(ConfigError, match=message):
            load_agent_class(f"{path}:Mine")


# Identity of an agent: its name, its parameters, its seed


class HTTPBidder(Agent):
    api = 3

    def __init__(self, size: int, *, spread: float = 0.5, **more: str) -> None:
        self.size = size


def test_parameters_are_the_arguments_with_their_defaults() -> None:
    assert HTTPBidder(3, colour="red").params == {"size": 3, "spread": 0.5, "colour": "red"}
    assert Passive().params == {}


def test_a_recreated_agent_has_the_parameters_and_the_name() -> None:
    agent = RandomAgent(max_size=2)
    agent.name = "mine"
    agent.has_run = True
    again = agent.recreate()
    assert (again.params, again.name, again.has_run) == (agent.params, "mine", False)


@pytest.mark.parametrize(("cls", "name"), [(HTTPBidder, "http-bidder"), (RandomAgent, "random-agent"), (Passive, "passive")])
def test_a_class_names_its_agents_in_words(cls: type[Agent], name: str) -> None:
    assert cls.name == name


@pytest.mark.parametrize("wrong", [{"colour": 1}, {"size": 1, "1": 2}])
def test_a_parameter_that_is_not_there_is_named_with_those_that_are(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"RandomAgent.*trade_probability, max_position, max_size"):
        RandomAgent(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "price"), [(3, 300), ("0.1", 10), ("0.01", 1), (0.5, 50), (12.3, 1230)])
def test_cents_are_exact(value: float | str, price: int) -> None:
    assert cents(value) == price


@pytest.mark.parametrize("value", [0.005, "0.001", float("nan"), float("inf"), "many", True])
def test_what_is_finer_than_a_price_or_no_number_names_the_parameter(value: object) -> None:
    with pytest.raises(ConfigError, match="spread_cents"):
        cents(value, "spread_cents")  # type: ignore[arg-type]


def test_contracts_are_exact_to_a_hundredth() -> None:
    assert (contracts(10), contracts("0.01")) == (1000, 1)
    with pytest.raises(ConfigError, match="a hundredth of a contract"):
        contracts(0.005)


def test_a_seed_is_the_same_on_every_machine_and_depends_on_all_three() -> None:
    seed = derive_seed("abc", "random", 7)
    assert f"{seed:064x}" == "922ddba0eedd8214b2dfee3870c3cccebcb26e565ed53aadad8f427b615d6209", (
        "as `printf 'abc\\nrandom\\n7' | sha256sum` has it"
    )
    assert len({seed, derive_seed("abd", "random", 7), derive_seed("abc", "randon", 7), derive_seed("abc", "random", 8)}) == 4
