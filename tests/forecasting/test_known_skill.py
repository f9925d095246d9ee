"""Models of known skill in a generated world: what they state arrives in benchmark/forecasts. Their scores: tests/calibration/test_sandbox_truth.py."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import polars as pl
import pytest
from starlette.types import ASGIApp

from bellwether.forecasting.evaluation import ask_all
from bellwether.forecasting.interview import interview
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal import Journal
from bellwether.models.client import ModelClient
from bellwether.models.keys import endpoints
from bellwether.models.registry import models
from bellwether.models.wire import ProviderWire
from bellwether.questions import Release, build
from bellwether.sandbox import Clock, GeneratedWorld, create_app, serve
from bellwether.sandbox.instants import moment
from bellwether.sandbox.models import Truth, skill
from bellwether.sandbox.world.model import Event, Market
from tests.clean.rows import market as row
from tests.clean.rows import markets, prices

pytestmark = pytest.mark.slow

NOW = datetime(2026, 7, 1, tzinfo=UTC)
RELEASE = Release(name="world", description="world", cutoff=datetime(2024, 1, 1, tzinfo=UTC), seed=1, per_series=0)
#: Questions that were open a day before their close, chosen by what was known then, never by the outcome.
QUESTIONS, OPEN = 150, 0.1
NAMES = ("calibrated", "overconfident", "timid", "contrarian")

Site = tuple[str, ASGIApp, pl.DataFrame]


def known(world: GeneratedWorld, market: Market) -> float:
    """The truth a day before the close, or at the opening of a shorter market."""
    return world.truth(market.ticker, max(moment(market.life.opens), moment(market.life.closes) - timedelta(days=1)))


def drawn(world: GeneratedWorld) -> Iterator[tuple[Event, Market, float]]:
    """One market of each event that ended yes or no, so that all are independent."""
    for home in range(120):
        for event in world.day(home).events:
            clear = [] if event.is_combo else [one for one in event.markets if one.determination.result in ("yes", "no")]
            if clear and OPEN < (truth := known(world, clear[0])) < 1 - OPEN:
                yield event, clear[0], truth


def asked(world: GeneratedWorld) -> pl.DataFrame:
    """Questions of benchmark/questions, and the truth about each, which nobody is shown."""
    sample = [found for found, _ in zip(drawn(world), range(QUESTIONS), strict=False)]
    rows = [
        row(
            market.ticker,
            event_id=event.ticker,
            series_id=market.series_ticker,
            question=f"{market.terms['title']} — {market.terms['yes_sub_title']}",
            description=market.terms["rules_primary"],
            open_time=moment(market.life.opens),
            close_time=moment(market.life.closes),
            settled_at=moment(market.life.settled),
            outcome=market.determination.result,
            known_at=NOW,
        )
        for event, market, _ in sample
    ]
    truth = pl.DataFrame({"market_id": [market.ticker for _, market, _ in sample], "truth": [p for *_, p in sample]})
    return build(RELEASE, markets(*rows).lazy(), prices().lazy()).join(truth, on="market_id")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """The sandbox's model endpoint, what answers there, and the questions of its world."""
    world = GeneratedWorld(7)
    questions = asked(world)
    assert questions.height == QUESTIONS
    application = create_app(world, truth=Truth(world), clock=Clock(NOW))
    with serve(application) as served:
        yield served.models, application, questions


def test_what_every_model_says_is_read_and_stored_to_the_last_digit(site: Site, tmp_path: Path) -> None:
    address, application, questions = site
    # The registry's cutoffs are made up; here every question counts.
    unbounded = {"knowledge_cutoff": None, "cutoff_source": None}
    forecasters = [LanguageModel(models()[f"sandbox-{name}"].model_copy(update=unbounded)) for name in NAMES]
    plain = questions.drop("truth")

    async def evaluation() -> pl.DataFrame:
        wire = ProviderWire(sandbox=httpx.ASGITransport(application))
        with Journal(f"sqlite:///{tmp_path / 'journal.db'}") as journal:
            async with ModelClient(journal, endpoint=endpoints(address), run="skill", wire=wire) as client:
                ends = await ask_all(forecasters, plain, client, lambda *state: None)
                assert not any(ends.values()), ends
                return pl.concat([await interview(one, plain, client) for one in forecasters])

    forecasts = asyncio.run(evaluation())
    assert (forecasts.height, forecasts["p_yes"].null_count()) == (len(NAMES) * QUESTIONS, 0)
    for (name,), rows in forecasts.join(questions, left_on="question_id", right_on="id").group_by("forecaster"):
        states = skill(str(name).removeprefix("sandbox-")).states
        expected = [states(truth) for truth in rows["truth"]]
        assert rows["p_yes"].to_list() == pytest.approx(expected, abs=5e-4), name


def test_a_wrong_form_is_read_as_what_was_meant_or_is_a_row_with_its_reason(site: Site, tmp_path: Path) -> None:
    address, _, some = site
    forecaster = LanguageModel(models()["sandbox-malformed"])

    async def evaluation() -> pl.DataFrame:
        journal = Journal(f"sqlite:///{tmp_path / 'journal.db'}")
        async with ModelClient(journal, endpoint=endpoints(address), run="malformed") as client:
            return await interview(forecaster, some.drop("truth"), client)

    found = asyncio.run(evaluation()).join(some.select("id", "truth"), left_on="question_id", right_on="id")
    read, unread = found.filter(pl.col("p_yes").is_not_null()), found.filter(pl.col("p_yes").is_null())
    assert read.height > 15
    assert unread.height > 0
    assert unread.select(pl.col("failure", "error").null_count()).row(0) == (0, 0)
    in_words = pl.col("raw_response").str.contains("about seventy")
    assert set(read.filter(in_words)["p_yes"].round(9)) == {0.3, 0.7}
    strays = read.filter(~in_words, (pl.col("p_yes") - pl.col("truth")).abs() > 0.006)
    assert strays.select("p_yes", "truth", "parsed_by", "contradiction").rows() == []
