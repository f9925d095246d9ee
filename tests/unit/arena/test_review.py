"""The weekly review proposes a later release if exactly one has prices, and otherwise leaves the choice to the operator."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from bellwether.arena.families import Family
from bellwether.arena.records import load_interventions
from bellwether.arena.review import Offer, ReviewFinding, ReviewState, list_offers, review_families
from bellwether.arena.weekly import interventions
from bellwether.arena.weekly.context import load_cohort
from bellwether.errors import ConfigError
from bellwether.models import prices
from bellwether.models.model import Model
from tests.unit.arena.weeks import LATER, WEEK, Arena

PRICED = (Decimal(5), Decimal(30))


def _family(name: str, provider: str, release: str, *has: str, without: tuple[str, ...] = (), control: bool = False) -> Family:
    releases = {release: {"released": date(2026, 1, 1)}}
    return Family.model_validate(
        {"name": name, "title": name, "provider": provider, "has": has, "without": without, "releases": releases, "control": control}
    )


def _model(name: str, model_id: str) -> Model:
    return Model.model_validate({"name": name, "model": model_id})


GPT = _family("gpt", "openai", "gpt-5.5", "gpt", without=("oss", "mini"))
KIMI = _family("kimi", "moonshotai", "kimi-k2.6", "kimi")
QWEN = _family("qwen", "qwen", "qwen3.6-max", "qwen", "max", without=("plus", "thinking"))
MODELS = {
    "gpt-5.5": _model("gpt-5.5", "openai/gpt-5.5"),
    "kimi-k2.6": _model("kimi-k2.6", "moonshotai/kimi-k2.6"),
    "qwen3.6-max": _model("qwen3.6-max", "qwen/qwen3.6-max-preview"),
}


def _reviewed(
    *offers: Offer, families: tuple[Family, ...] = (GPT,), dismissed: tuple[tuple[str, str], ...] = ()
) -> dict[str, ReviewFinding]:
    return {one.family.name: one for one in review_families(families, offers, MODELS, {}, dismissed)}


def test_two_later_releases_of_one_version_need_a_review() -> None:
    found = _reviewed(Offer("openai/gpt-5.6", *PRICED), Offer("openai/gpt-5.6-preview", *PRICED))["gpt"]
    assert found.state is ReviewState.NEEDS_REVIEW
    assert [one.model_id for one in found.offers] == ["openai/gpt-5.6", "openai/gpt-5.6-preview"]


def test_a_later_release_without_a_price_needs_a_review() -> None:
    found = _reviewed(Offer("openai/gpt-5.7"))["gpt"]
    assert found.state is ReviewState.NEEDS_REVIEW
    assert (found.offers[0].input_price, found.offers[0].output_price) == (None, None)


def test_only_what_is_of_the_family_and_newer_is_proposed() -> None:
    names = ("openai/gpt-oss-120b", "moonshotai/kimi-k2-0905", "qwen/qwen-plus-2025-07-28:thinking", "qwen/qwen3.7-max-preview")
    found = _reviewed(*(Offer(name, *PRICED) for name in names), families=(GPT, KIMI, QWEN))
    assert {name: one.state for name, one in found.items()} == {"gpt": "unchanged", "kimi": "unchanged", "qwen": "upgrade"}
    assert [one.model_id for one in found["qwen"].offers] == ["qwen/qwen3.7-max-preview"]


def test_a_dismissed_release_is_proposed_no_more() -> None:
    offers = (Offer("openai/gpt-5.6", *PRICED), Offer("openai/gpt-5.5", *PRICED))
    assert _reviewed(*offers)["gpt"].state is ReviewState.UPGRADE
    assert _reviewed(*offers, dismissed=(("gpt", "openai/gpt-5.6"),))["gpt"].state is ReviewState.DISMISSED
    assert _reviewed(*offers, dismissed=(("kimi", "openai/gpt-5.6"),))["gpt"].state is ReviewState.UPGRADE


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("openai/gpt-5.2-2025-12-11", (5, 2)),
        ("openai/gpt-4o-2024-05-13", (4,)),
        ("fireworks_ai/accounts/fireworks/models/deepseek-v3p2", (3, 2)),
        ("moonshotai/kimi-k2-0905", (2,)),
        ("together_ai/Qwen/Qwen3-235B-A22B-Instruct-2507", (3,)),
        ("gemini/gemini-3.0-pro", (3,)),
        ("gemini/gemini-pro-latest", ()),
    ],
)
def test_a_version_is_read_part_by_part_without_date_stamps(name: str, version: tuple[int, ...]) -> None:
    assert Offer(name).version == version


def test_the_catalogue_is_of_chat_models_that_are_not_retired() -> None:
    entries: dict[str, dict[str, object]] = {
        "gpt-5.6": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 5e-06, "output_cost_per_token": 3e-05},
        "gpt-5.4": {"litellm_provider": "openai", "mode": "chat", "deprecation_date": "2026-03-01"},
        "gpt-image": {"litellm_provider": "openai", "mode": "image_generation"},
        "xai/grok-5": {"litellm_provider": "xai", "mode": "chat"},
    }
    own = Model.model_validate({"name": "own", "model": "openai/own", "input_price": "1", "output_price": "2"})
    found = {one.model_id: one for one in list_offers({"own": own}, entries, date(2026, 4, 1))}
    assert set(found) == {"openai/gpt-5.6", "xai/grok-5", "openai/own"}
    assert (found["openai/gpt-5.6"].input_price, found["openai/gpt-5.6"].output_price) == PRICED
    assert found["xai/grok-5"].input_price is None
    assert found["openai/own"].output_price == 2


SOLD = {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 5e-06, "output_cost_per_token": 3e-05}


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Arena with one later GPT in the price map."""
    monkeypatch.setattr(prices, "price_map", lambda: {"gpt-5.2": SOLD, "gpt-9.1": SOLD})
    return Arena(tmp_path)


def test_the_review_changes_nothing_and_a_dismissal_ends_its_proposal(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dismissal changes no family, release or lineup."""
    files = {path: path.read_bytes() for path in arena.registry.iterdir()}
    monkeypatch.setattr(interventions, "load_families", lambda models, folder: {"gpt": GPT_NOW})
    with arena.journal() as journal:
        world = arena.world(journal)
        (found,) = interventions.review_registry(world)
        assert (found.state, [one.model_id for one in found.offers]) == (ReviewState.UPGRADE, ["openai/gpt-9.1"])
        with pytest.raises(ConfigError, match=r"does not propose it; it proposes gpt openai/gpt-9\.1"):
            interventions.dismiss_release(world, "gpt", "openai/gpt-8", "ann", "never heard of it")
        interventions.dismiss_release(world, "gpt", "openai/gpt-9.1", "ann", "too dear")
        assert interventions.dismiss_release(world, "gpt", "openai/gpt-9.1", "bob", "again").by == "ann", "the first word stands"
        assert [one.author for one in load_interventions(world.records)] == ["ann (too dear)"]
        (found,) = interventions.review_registry(world)
        assert load_cohort(world.records, WEEK) is None
    rows = interventions.build_review_rows([found], LATER)
    assert rows.select("family", "state", "input_price").rows() == [("gpt", "dismissed", None)]
    assert files == {path: path.read_bytes() for path in arena.registry.iterdir()}


GPT_NOW = _family("gpt", "openai", "gpt-5.2", "gpt", without=("mini",))
