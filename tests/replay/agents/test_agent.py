"""What an agent is: its name, its parameters, its seed."""

from __future__ import annotations

import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, cents, contracts
from bellwether.replay.agents.agent import stable_seed
from bellwether.replay.agents.baselines import Passive, RandomAgent


class HTTPBidder(Agent):
    def __init__(self, size: int, *, spread: float = 0.5, **more: str) -> None:
        self.size = size


def test_parameters_are_the_arguments_with_their_defaults() -> None:
    assert HTTPBidder(3, colour="red").params == {"size": 3, "spread": 0.5, "colour": "red"}
    assert Passive().params == {}


def test_an_agent_made_anew_has_the_parameters_and_the_name() -> None:
    agent = RandomAgent(max_size=2)
    agent.name = "mine"
    agent.has_run = True
    again = agent.anew()
    assert (again.params, again.name, again.has_run) == (agent.params, "mine", False)


@pytest.mark.parametrize(("cls", "name"), [(HTTPBidder, "http-bidder"), (RandomAgent, "random-agent"), (Passive, "passive")])
def test_a_class_names_its_agents_in_words(cls: type[Agent], name: str) -> None:
    assert cls.name == name


@pytest.mark.parametrize("wrong", [{"colour": 1}, {"size": 1, "1": 2}])
def test_a_parameter_that_is_not_there_is_named_with_those_that_are(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"RandomAgent.*trade_probability, max_position, max_size"):
        RandomAgent(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "mills"), [(3, 30), ("0.1", 1), (0.5, 5), (12.3, 123)])
def test_cents_are_exact(value: float | str, mills: int) -> None:
    assert cents(value) == mills


@pytest.mark.parametrize("value", [0.05, "0.01", float("nan"), float("inf"), "many", True])
def test_what_is_finer_than_a_mill_or_no_number_names_the_parameter(value: object) -> None:
    with pytest.raises(ConfigError, match="spread_cents"):
        cents(value, "spread_cents")  # type: ignore[arg-type]


def test_contracts_are_exact_to_a_hundredth() -> None:
    assert (contracts(10), contracts("0.01")) == (1000, 1)
    with pytest.raises(ConfigError, match="a hundredth of a contract"):
        contracts(0.005)


def test_a_seed_is_the_same_on_every_machine_and_depends_on_all_three() -> None:
    seed = stable_seed("abc", "random", 7)
    assert f"{seed:064x}" == "922ddba0eedd8214b2dfee3870c3cccebcb26e565ed53aadad8f427b615d6209", (
        "as `printf 'abc\\nrandom\\n7' | sha256sum` has it"
    )
    assert len({seed, stable_seed("abd", "random", 7), stable_seed("abc", "randon", 7), stable_seed("abc", "random", 8)}) == 4
