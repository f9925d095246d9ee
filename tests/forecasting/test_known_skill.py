"""The sandbox's models of known skill, asked about a generated world: they are measured as what they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from starlette.types import ASGIApp

from bellwether.calibration.comparison import Comparison
from bellwether.calibration.scores import compare_forecasters, leaderboard, score
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
#: Enough questions that were open a day before their close to tell the models apart; chosen by what was known then, never by the outcome.
QUESTIONS, OPEN = 800, 0.1
NAMES = ("calibrated", "overconfident", "timid", "contrarian", "noisy")


@dataclass(frozen=True)
class Evaluated:
    """Questions with the truth about them, what the models said, and how that was scored."""

    questions: pl.DataFrame
    forecasts: pl.DataFrame
    scores: pl.DataFrame
    comparison: Comparison

    def of(self, name: str) -> pl.DataFrame:
        """Rows of one model, with what was known and the outcome."""
        return self.forecasts.filter(forecaster=f"sandbox-{name}").join(self.questions, left_on="question_id", right_on="id")

    def score(self, name: str, metric: str) -> dict[str, Any]:
        """A metric over all questions."""
        return self.scores.filter(forecaster=f"sandbox-{name}", metric=metric, scope="all").row(0, named=True)

    @cached_property
    def excesses(self) -> dict[str, float]:
        """How much the expected Brier score of each model exceeds that of the truth."""
        return {name: skill(name).excess_brier(self.questions["truth"]) for name in NAMES}


def known(world: GeneratedWorld, market: Market) -> float:
    """The truth a day before the close, or at the opening of a shorter market."""
    return world.truth(market.ticker, max(moment(market.life.opens), moment(market.life.closes) - timedelta(days=1)))


def drawn(world: GeneratedWorld) -> Iterator[tuple[Event, Market, float]]:
    """One market of each event that ended yes or no, so that all are independent."""
    for home in range(540):
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
def site() -> Iterator[tuple[str, ASGIApp, pl.DataFrame]]:
    """The sandbox's model endpoint, what answers there, and the questions of its world."""
    world = GeneratedWorld(7)
    questions = asked(world)
    assert questions.height == QUESTIONS
    application = create_app(world, truth=Truth(world), clock=Clock(NOW))
    with serve(application) as served:
        yield served.models, application, questions


@pytest.fixture(scope="module")
def evaluated(site: tuple[str, ASGIApp, pl.DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    address, application, questions = site
    # The registry's cutoffs are made up; here every question counts.
    unbounded = {"knowledge_cutoff": None, "cutoff_source": None}
    forecasters = [LanguageModel(models()[f"sandbox-{name}"].model_copy(update=unbounded)) for name in NAMES]
    plain = questions.drop("truth")

    async def evaluation() -> pl.DataFrame:
        with ExitStack() as stack:
            journal = stack.enter_context(Journal(f"sqlite:///{tmp_path_factory.mktemp('skill') / 'journal.db'}"))
            async with ModelClient(
                journal, endpoint=endpoints(address), run="skill", wire=ProviderWire(sandbox=httpx.ASGITransport(application))
            ) as client:
                ends = await ask_all(forecasters, plain, client, lambda *state: None)
                assert not any(ends.values()), ends
                return pl.concat([await interview(one, plain, client) for one in forecasters])

    forecasts = asyncio.run(evaluation())
    scores = score(forecasts, plain, replicates=2000)
    return Evaluated(questions, forecasts, scores, compare_forecasters(forecasts, plain, replicates=2000))


def test_every_question_is_answered_and_the_calibrated_says_what_was_known(evaluated: Evaluated) -> None:
    assert evaluated.forecasts.height == len(NAMES) * QUESTIONS
    assert evaluated.forecasts["p_yes"].null_count() == 0
    said = evaluated.of("calibrated")
    assert np.abs(said["p_yes"].to_numpy() - said["truth"].to_numpy()).max() < 1e-4


def test_the_calibrated_passes_the_tests_of_calibration(evaluated: Evaluated) -> None:
    assert all(evaluated.score("calibrated", metric)["p_calibrated"] > 0.05 for metric in ("ece", "smece", "murphy_reliability"))


@pytest.mark.parametrize("name", ["overconfident", "timid", "contrarian", "noisy"])
def test_the_others_fail_them(evaluated: Evaluated, name: str) -> None:
    assert all(evaluated.score(name, metric)["p_calibrated"] < 0.05 for metric in ("ece", "smece", "murphy_reliability"))


@pytest.mark.parametrize(("name", "standard_error"), [("overconfident", 0.0045), ("timid", 0.0045), ("contrarian", 0.014)])
def test_without_noise_debiased_reliability_is_the_true_excess_of_the_brier_score(
    evaluated: Evaluated, name: str, standard_error: float
) -> None:
    """Within three standard errors of 800 questions, simulated with truths of the same range."""
    found = evaluated.score(name, "murphy_reliability_debiased")["value"]
    assert found == pytest.approx(evaluated.excesses[name], abs=3 * standard_error)


def test_the_ranking_is_the_true_one(evaluated: Evaluated) -> None:
    table = leaderboard(
        evaluated.scores, dict.fromkeys((f"sandbox-{name}" for name in NAMES), "language_model"), comparison=evaluated.comparison
    )
    ranked = [name.removeprefix("sandbox-") for name in table.sort("rank")["forecaster"]]
    assert ranked == sorted(NAMES, key=evaluated.excesses.__getitem__)
    assert (ranked[0], ranked[-1]) == ("calibrated", "contrarian")
    assert table.filter("in_mcs")["forecaster"].to_list() == ["sandbox-calibrated"]
    assert table.sort("rank")["share_first"][0] > 0.99


def test_the_calibrated_is_better_than_each_other_by_the_paired_tests_after_holm(evaluated: Evaluated) -> None:
    pairs = evaluated.comparison.pairs.filter(pl.col("forecaster") == "sandbox-calibrated")
    others = {found["other"].removeprefix("sandbox-"): found for found in pairs.iter_rows(named=True)}
    assert set(others) == set(NAMES) - {"calibrated"}
    for name, found in others.items():
        assert found["p_holm"] < 0.01, name
        assert found["lower"] < -evaluated.excesses[name] < found["upper"], name


def test_a_wrong_form_is_read_as_what_was_meant_or_is_a_row_with_its_reason(
    site: tuple[str, ASGIApp, pl.DataFrame], tmp_path_factory: pytest.TempPathFactory
) -> None:
    address, _, questions = site
    some = questions.head(150)
    forecaster = LanguageModel(models()["sandbox-malformed"])

    async def evaluation() -> pl.DataFrame:
        journal = Journal(f"sqlite:///{tmp_path_factory.mktemp('malformed') / 'journal.db'}")
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
