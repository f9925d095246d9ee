"""Questions of Metaculus as a release, scores of bots by its rules, and the server of its interface."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy.stats import gmean

from bellwether.bridges.metaculus import baseline_score, import_questions, peer_scores, score_reports
from bellwether.bridges.metaculus_server import Interview, build_application
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.settings import World
from bellwether.submissions import Submissions
from cli.main import main
from tests.unit.bridges.posts import POSTS, post, report
from tests.unit.bridges.rounds import write
from tests.unit.report import frames


def load(folder: Path, posts: Any = POSTS) -> tuple[pl.DataFrame, list[str]]:
    """Import posts as a release."""
    (folder / "registry").mkdir(exist_ok=True)
    path = write(folder / "posts.json", posts)
    return import_questions(Lake(str(folder / "lake"), durable=False), folder / "registry", path, name="meta", world=World.SANDBOX)


def test_resolved_binary_questions_are_a_release_and_others_are_listed(tmp_path: Path) -> None:
    questions, left_out = load(tmp_path)
    assert questions.select("id", "ground_truth", "category").rows() == [
        ("metaculus:1001", "yes", "Politics"),
        ("metaculus:1002", "no", "Politics"),
        ("metaculus:1003", "no", "Politics"),
    ]
    assert left_out == [
        "row 6: numeric",
        "row 7: multiple_choice",
        "row 8: date",
        "row 9: group_of_questions",
        "row 10: it has no post of the interface",
        "question 1004: not resolved",
        "question 1005: annulled",
    ]
    first = questions.row(0, named=True)
    assert (first["close_time"], first["settled_at"]) == (datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC))
    assert (first["price_24h"], first["price_24h_at"], first["price_1h"]) == (
        Decimal("0.8"),
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal("0.4"),
    )
    assert first["description"] == "As its page says.\n\nBackground."
    assert questions["price_24h"][1] is None


def test_questions_of_a_group_share_a_cluster(tmp_path: Path) -> None:
    questions, _ = load(tmp_path, [post(1, "yes"), post(1, "no", id=1002)])
    assert questions.select("id", "cluster").rows() == [("metaculus:1001", "metaculus:1"), ("metaculus:1002", "metaculus:1")]
    mine = write(tmp_path / "mine.json", [report(1, 0.9), report(1, 0.2, id_of_question=1002)])
    assert score_reports([mine], tmp_path / "posts.json").theirs["n_baseline"].to_list() == [2]


def test_a_question_that_resolves_early_closes_then(tmp_path: Path) -> None:
    questions, _ = load(tmp_path, [post(1, "yes", actual_close_time=None, actual_resolve_time="2026-01-20T12:00:00Z")])
    assert questions.select("close_time", "settled_at").row(0) == (datetime(2026, 1, 20, 12, tzinfo=UTC),) * 2


@pytest.mark.parametrize(
    ("posts", "message"),
    [
        ([POSTS[1], post(3, "yes", title=None)], "posts.json, row 2, post, question, title"),
        ([post(1, "yes", scheduled_close_time=5)], "row 1, post, question, scheduled_close_time = '5': must be a time as text"),
        ([post(1, "yes", crowd=1.2)], "history, row 1, centers, row 1 = '1.2'"),
        (
            [post(1, "yes", open_time="2026-03-01T00:00:00Z")],
            r"question 1001, open_time = 2026-03-01 00:00:00\+00:00: it must be before the close",
        ),
        ([POSTS[0], POSTS[0]], "row 2, id = 1001: row 1 has this question too"),
        (["text"], "row 1 = 'text': must be a post"),
        (POSTS[3:], "no binary question is resolved"),
    ],
)
def test_an_invalid_file_of_questions_is_refused(tmp_path: Path, posts: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, posts)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("p", "outcome", "published"),
    [(0.9, 1, 84.79969066), (0.1, 1, -232.19280949), (0.9, 0, -232.19280949), (2**-0.5, 1, 50), (2**-1.5, 1, -50), (0.5, 0, 0)],
)
def test_baseline_scores_are_those_of_metaculus(p: float, outcome: int, published: float) -> None:
    """The numbers are in the tests of its server; its FAQ gives those below, rounded."""
    assert baseline_score(p, outcome) == pytest.approx(published, abs=5e-9)
    for stated, rounded in ((0.24, -106), (0.99, 99)):
        assert round(baseline_score(stated, 1)) == rounded
    assert round(baseline_score(0.24, 1) / 52 + 51 / 52 * baseline_score(0.05, 1)) == -328


@pytest.mark.parametrize("stated", [[0.1, 0.9], [0.4, 0.6], [0.1, 0.5, 0.9], [0.1, 0.3, 0.6, 0.9], [0.9, 0.9]])
def test_peer_scores_are_those_of_metaculus(stated: list[float]) -> None:
    """The examples and their formula are those of its server's tests: the logarithm of the ratio to the geometric mean of the others."""
    published = [100 * np.log(p / gmean([*stated[:place], *stated[place + 1 :]])) for place, p in enumerate(stated)]
    assert peer_scores(stated, 1) == pytest.approx(published, abs=1e-9)
    assert peer_scores([1 - p for p in stated], 0) == pytest.approx(published, abs=1e-9)
    assert sum(peer_scores(stated, 1)) == pytest.approx(0, abs=1e-9)


def test_reports_of_bots_are_scored_with_the_community(tmp_path: Path) -> None:
    asked = write(tmp_path / "posts.json", POSTS)
    mine = write(tmp_path / "mine.json", [report(1, 0.9), report(2, 0.2), report(4, 0.5), report(6, {"declared_percentiles": []})])
    other = write(tmp_path / "other.json", [report(1, 0.6), {"question": {"question_id": 3}, "prediction_in_decimal": 0.3}])
    found = score_reports([mine, other], asked)
    rows = {row["forecaster"]: row for row in found.theirs.iter_rows(named=True)}
    assert rows["mine"]["baseline"] == pytest.approx(50 * (math.log2(1.8) + math.log2(1.6)))
    assert (rows["mine"]["peer"], rows["other"]["n_peer"]) == (pytest.approx(100 * math.log(0.9 / 0.6)), 1)
    assert rows["community"]["baseline"] == pytest.approx(50 * (math.log2(0.8) + math.log2(1.8)))
    assert rows["community"]["n_peer"] == 0
    brier = found.ours.scores.filter(forecaster="mine", metric="brier")
    assert brier["value"][0] == pytest.approx((0.1**2 + 0.2**2) / 2)
    assert found.left_out == (f"{mine}, row 3, post 4: not resolved",)
    done = CliRunner().invoke(main, ["score", str(mine), str(other), "--metaculus", str(asked)])
    assert done.exit_code == 0, done.output
    assert "Scores of Metaculus" in done.output


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([report(1, 1.0)], "mine.json, row 1, prediction = '1.0': Input should be less than or equal to 0.999"),
        ([report(1, "0.5")], "row 1, prediction = '0.5'"),
        ([report(1, None)], "row 1, prediction = 'None'"),
        ([report(1, 0.5), {"question": {}, "prediction": 0.5}], "row 2, question, id_of_post: Field required"),
        ([report(1, 0.5), report(1, 0.6)], "row 2, question 1001: an earlier row has a report on it"),
        ([report(4, 0.5)], "no report is on a resolved binary question"),
        ({"question": 1}, "mine.json = .*: Input should be a valid list"),
    ],
)
def test_an_invalid_file_of_reports_is_refused(tmp_path: Path, reports: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        score_reports([write(tmp_path / "mine.json", reports)], write(tmp_path / "posts.json", POSTS))


async def test_answers_to_the_server_are_a_submission(tmp_path: Path) -> None:
    store = Submissions(tmp_path / "submissions")
    questions = frames.release(3)
    for name, problem in (("gpt-4o", "is a forecaster already"), ("../bot", "is not a valid forecaster name")):
        with pytest.raises(ConfigError, match=problem):
            Interview(questions, store, name, taken=("gpt-4o",), clock=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    interview = Interview(questions, store, "bot", taken=("gpt-4o",), clock=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    transport = httpx.ASGITransport(build_application(interview))
    async with httpx.AsyncClient(transport=transport, base_url="http://bot/api") as client:
        page = (await client.get("/posts/?limit=100")).json()
        assert [item["id"] for item in page["results"]] == [1, 2, 3]
        assert (await client.get("/posts/?offset=100")).json()["results"] == []
        assert (await client.get("/posts/2/")).json()["question"]["title"] == questions["question"][1]
        assert (await client.get("/posts/9/")).status_code == 404
        answer = {"question": 2, "source": "api", "probability_yes": 0.25}
        assert (await client.post("/questions/forecast/", json=[answer])).status_code == 201
        assert (await client.post("/questions/forecast/", json=[answer])).status_code == 201
        for changed, reason in (
            ({"probability_yes": 0.3}, "question 2: an earlier submission already has another forecast"),
            ({"probability_yes": 1.5}, "0.probability_yes: Input should be less than"),
            ({"question": 9}, "question 9: there is no such question"),
            ({"probability_yes": None, "continuous_cdf": []}, "0.probability_yes: Input should be a valid number"),
        ):
            refused = await client.post("/questions/forecast/", json=[answer | changed])
            assert (refused.status_code, reason in refused.json()["detail"]) == (400, True), refused.text
        both = await client.post("/questions/forecast/", json=[answer | {"question": 1}, answer | {"question": 9}])
        assert both.status_code == 400
        text = await client.post("/questions/forecast/", content="[]", headers={"content-type": "text/plain"})
        assert text.status_code == 415
        assert (await client.post("/comments/create/", json={"on_post": 2, "text": "Why."})).status_code == 201
    rows = store.read(["bot"])
    stated = max(questions["close_time"][1] - timedelta(hours=24), questions["open_time"][1])
    assert rows.select("market", "probability", "stated_at").rows() == [(questions["id"][1], 0.25, stated)]
