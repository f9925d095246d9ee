"""Bad input of language models and their providers on the whole path: registry, key, HTTP, journal, parser, score.

Each case is a row with its reason, or ends the model's evaluation with a clear error. Money spent is in the journal and in the forecasts.
tests/graph/test_evaluation.py tests that a resumed evaluation refuses changed questions.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import polars as pl
import pytest

from bellwether.calibration.scores import score
from bellwether.errors import ScoringError
from bellwether.forecasting import forecasters
from bellwether.forecasting.elicitation_run import Interrupted
from bellwether.journal import Journal
from bellwether.models.client import Limits, ModelClient, Retry
from bellwether.models.keys import endpoints
from bellwether.questions import build
from tests.clean.rows import market, markets, prices
from tests.forecasting.test_elicitation_run import RELEASE
from tests.models.failing_provider import KEY, VARIABLE, Provider, provider, write_models

N, CONCURRENCY = 3, 2
BOUNDS = Retry(attempts=4, turned_away=6, patience=1e6)
#: Factor by which waits are shortened.
HASTE = 1000.0


@dataclass(frozen=True)
class Case:
    """A bad input and its expected result.

    Attributes:
        about: the kind of bad input.
        model: the queried model; `tests.models.failing_provider` defines its answers.
        failure, reason: failure and pattern of the reason in each row. With `stops`, `reason` matches the error that ends the evaluation.
        p: the forecast, if there is one.
        requests: number per question.
        paid: micro-dollars per question; None if unknown.
        final: True if the next run sends no further request.
    """

    about: str
    model: str
    reason: str = ""
    failure: str | None = None
    stops: str | None = None
    p: float | None = None
    requests: int = 1
    paid: int | None = 350
    final: bool = True
    key: str | None = KEY

    def __str__(self) -> str:
        return self.about


STOPS = (
    Case("a missing key", "calibrated", rf"{VARIABLE} is not set; set it to your key", stops="authentication", requests=0, key=None),
    Case("a key that is none", "calibrated", "blanks, line breaks or characters", stops="authentication", requests=0, key="two words"),
    Case("a wrong key", "calibrated", "HTTP 401: the key was refused", stops="authentication", key="sk-of-somebody-else"),
    Case("an expired key", "calibrated", "HTTP 401: the key was refused.*expired", stops="authentication", key="sandbox-expired"),
    Case("no credit", "calibrated", "HTTP 402.*add credit at the provider", stops="out_of_credit", key="sandbox-broke"),
    Case("an unknown model", "nobody", "HTTP 404.*nobody.*correct the model's id", stops="unknown_model"),
)
ROWS = (
    Case("an answer that breaks off", "cut", "broke before the answer was whole", "provider_error", requests=4, paid=None, final=False),
    Case("an answer that breaks off once", "cut-once", p=math.nan, requests=2, paid=None),
    Case("a provider that is down", "down", "HTTP 50[0234]", "provider_error", requests=4, paid=None, final=False),
    Case("a web page", "page", "HTTP 200 with a web page", "malformed", requests=4, paid=None, final=False),
    Case("a storm of 429 that passes", "storm-once", p=math.nan, requests=5, paid=-1),
    Case("a storm of 429 that does not", "storm", "HTTP 429", "rate_limit", requests=6, paid=0, final=False),
    Case("a request that the provider does not take", "echo", "HTTP 400: .*I do not understand", "provider_error", paid=0, final=False),
    Case("an answer of a megabyte", "megabyte", p=0.9),
    Case("an empty answer", "empty", "an answer without text", "malformed", requests=2, paid=700),
    Case("no answer at all", "nothing", "an answer without text", "malformed", requests=2, paid=700),
    Case("an answer that was filtered", "filtered", "the provider withheld the answer: content_filter", "refusal"),
    Case("reasoning without an answer", "musing", "reasoning without an answer", "malformed", requests=2, paid=700),
    Case("reasoning up to the limit", "thinking", "cut at its limit of tokens", "truncation", requests=2, paid=700),
    Case("two answers that contradict each other", "contradicting", "contradict", "contradictory", requests=2, paid=700),
    Case("a confidence of 250", "certain", "250", "unreadable", requests=2, paid=700),
    Case("a confidence that is no number", "vague", "NaN", "unreadable", requests=2, paid=700),
    Case("text that attacks its reader", "hostile", p=0.9),
    Case("an answer that repeats the key", "parrot", p=0.9),
)


class Place:
    """A journal, a registry and a provider. Models are queried as in the graph."""

    def __init__(self, folder: Path, asked: Provider, url: str) -> None:
        self.folder, self.provider, self.url = folder, asked, url
        self.questions = build(RELEASE, markets(*(market(f"M{number}") for number in range(N))).lazy(), prices().lazy())
        self.journal = Journal(f"sqlite:///{folder / 'journal.db'}")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        limits = Limits(dollars=Decimal(1), concurrency=CONCURRENCY)
        time = {"now": lambda: monotonic() * HASTE, "sleep": lambda seconds: asyncio.sleep(seconds / HASTE)}
        async with ModelClient(self.journal, endpoint=endpoints(None), run="run", limits=limits, retry=BOUNDS, seed=1, **time) as client:
            yield client

    def ask(self, case: Case, patch: pytest.MonkeyPatch) -> pl.DataFrame:
        write_models(self.folder, self.url, {"subject": {"model": f"openai/{case.model}", "timeout": 5}})
        patch.setenv(VARIABLE, case.key) if case.key is not None else patch.delenv(VARIABLE, raising=False)
        return forecasters(self.folder)["subject"].forecast(self.questions, self)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with provider() as served:
        found = Place(tmp_path, *served)
        yield found
        found.journal.close()


@pytest.mark.parametrize("case", STOPS, ids=str)
def test_what_only_a_person_can_mend_ends_the_evaluation_with_a_clear_error(
    place: Place, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    with pytest.raises(Interrupted, match=case.reason) as caught:
        place.ask(case, monkeypatch)
    assert caught.value.cause.kind == case.stops
    assert f"0 of {N} forecasts of subject" in str(caught.value)
    assert case.key is None or case.key not in str(caught.value)
    assert place.provider.calls(case.model) <= CONCURRENCY * case.requests
    assert place.journal.spent().committed == 0
    assert not place.journal.failures()
    mended = place.ask(Case("mended", "calibrated"), monkeypatch)
    assert mended["p_yes"].null_count() == 0


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_whatever_comes_back_is_a_row_with_its_reason_and_its_price(place: Place, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    found = place.ask(case, monkeypatch)
    assert found.height == N
    assert place.provider.calls(case.model) == N * case.requests
    for row in found.iter_rows(named=True):
        check(row, case)
    spent = place.journal.spent()
    known = sum((row["cost"] for row in found.iter_rows(named=True) if row["cost"] is not None), Decimal(0))
    assert spent.spent >= known * 1_000_000
    if case.paid is not None:
        assert spent.committed == known * 1_000_000
        assert case.paid < 0 or known * 1_000_000 == N * case.paid
    again = place.ask(case, monkeypatch)
    assert place.provider.calls(case.model) == N * case.requests * (1 if case.final else 2)
    assert again.equals(found) or not case.final


def check(row: dict[str, Any], case: Case) -> None:
    """Compare a row with its case."""
    assert row["failure"] == case.failure
    assert (row["cost"] is None) == (case.paid is None)
    assert row["attempts"] == case.requests
    if case.failure is not None:
        assert row["p_yes"] is None
        assert row["error"]
        assert re.search(case.reason, row["error"]), row["error"]
        assert len(row["error"]) < 400
        assert KEY not in row["error"]
        return
    assert case.p is not None
    assert row["error"] is None
    assert 0 < row["p_yes"] < 1
    assert math.isnan(case.p) or row["p_yes"] == pytest.approx(case.p)
    assert KEY not in row["raw_response"]


def test_rows_of_failures_lower_the_coverage_and_nothing_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = score(place.ask(Case("cut", "cut"), monkeypatch), place.questions, replicates=0)
    assert set(scores["n"]) == {0}
    coverage = scores.filter(metric="coverage", scope="all")["value"].to_list()
    assert coverage == [0.0]
    assert scores.filter(metric="brier", scope="all")["value"].to_list() == [None]


# --- given to the scorer ---------------------------------------------------------------------------------------------

Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture
def answered(place: Place, monkeypatch: pytest.MonkeyPatch) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the answers of a good model, and questions with both outcomes."""
    truths = pl.Series("ground_truth", ["yes", "no", "yes"])
    return place.ask(Case("good", "calibrated"), monkeypatch), place.questions.with_columns(truths)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda rows: rows.with_columns(p_yes=pl.lit(math.nan)), "p_yes lies in", id="NaN"),
        pytest.param(lambda rows: rows.with_columns(p_yes=pl.lit(-0.1)), "'p_yes': -0.1", id="below 0"),
        pytest.param(lambda rows: rows.with_columns(p_yes=pl.lit(1.0001)), "'p_yes': 1.0001", id="above 1"),
        pytest.param(lambda rows: pl.concat([rows, rows.head(1)]), "remove the copies", id="a model's second row on a question"),
        pytest.param(
            lambda rows: rows.with_columns(question_id=pl.lit("kalshi:OTHER")), "no such question", id="another release's question"
        ),
    ],
)
def test_rows_that_cannot_be_scored_are_refused_by_name(answered: tuple[pl.DataFrame, pl.DataFrame], change: Change, said: str) -> None:
    forecasts, questions = answered
    bad = change(forecasts) if said != "no such question" else change(forecasts.head(1))
    with pytest.raises(ScoringError, match=said):
        score(bad, questions)
