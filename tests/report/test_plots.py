"""The figures: PNG below 100 kB, the same bytes each time, untrusted text drawn as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib import _pylab_helpers, rcParams
from matplotlib.figure import Figure

from bellwether.calibration import reliability_bins
from bellwether.report.plots import (
    brier_over_time,
    calibration_overlays,
    confidence_histograms,
    coverage_bars,
    reliability_diagram,
    score_by_distance,
    score_comparison,
)
from bellwether.report.plots_canvas import COLOURS, MOST_PANELS
from bellwether.report.plots_frames import answered, means
from tests.report.pictures import colours, pixels


def bins(*names: str, n: int = 400) -> pl.DataFrame:
    """Reliability rows of overconfident forecasters."""
    frames = []
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        p = generator.random(n)
        frames.append(reliability_bins(p, generator.random(n) < 0.25 + 0.5 * p).with_columns(forecaster=pl.lit(name)))
    return pl.concat(frames)


def board(*lines: tuple[str, int | None, float | None]) -> pl.DataFrame:
    """Leaderboard rows: name, rank, Brier score."""
    rows = [
        {"release": "r1", "forecaster": name, "rank": rank, "kind": "constant", "brier": brier, "brier_lower": brier and brier - 0.02}
        | {"brier_upper": brier and brier + 0.02, "coverage": 1.0 if rank else 0.5}
        for name, rank, brier in lines
    ]
    floats = dict.fromkeys(("brier", "brier_lower", "brier_upper", "coverage"), pl.Float64())
    return pl.DataFrame(rows, schema={"release": pl.String(), "forecaster": pl.String(), "rank": pl.Int32(), "kind": pl.String(), **floats})


def asked(n: int = 120) -> pl.DataFrame:
    """Questions q0, q1, … over four months, three to a cluster, a third of them yes."""
    start = datetime(2025, 1, 15, tzinfo=UTC)
    rows = [
        {"id": f"q{index}", "cluster": f"c{index // 3}", "ground_truth": "no" if index % 3 else "yes"}
        | {"close_time": start + timedelta(days=index), "settled_at": start + timedelta(days=index) if index % 2 else None}
        for index in range(n)
    ]
    return pl.DataFrame(rows)


def said(*names: str, n: int = 120, failure: str | None = None, could_know: bool = False) -> pl.DataFrame:
    """Forecasts of `asked`, as far as the figures read them; with a `failure`, every tenth has none."""
    rows = []
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        for index, p in enumerate(generator.random(n).round(3).tolist()):
            failed = failure is not None and index % 10 == 0
            rows.append(
                {"release": "r1", "forecaster": name, "question_id": f"q{index}", "sample": 0, "p_yes": None if failed else p}
                | {"answer": None if failed else "yes" if p >= 0.5 else "no", "failure": failure if failed else None, "combine": None}
                | {"as_of": None, "could_know": could_know, "knowledge_cutoff": None}
            )
    nulls = {
        "combine": pl.String(),
        "failure": pl.String(),
        "as_of": pl.Datetime("us", "UTC"),
        "knowledge_cutoff": pl.Datetime("us", "UTC"),
    }
    return pl.DataFrame(rows, schema_overrides=nulls, infer_schema_length=None)


def distances(*names: str) -> pl.DataFrame:
    """Scores by distance from the knowledge cutoff, not in order."""
    rows = [
        {
            "forecaster": name,
            "scope": f"distance:{days}",
            "metric": "brier",
            "value": value,
            "lower": value - 0.03,
            "upper": value + 0.03,
            "n": 40,
        }
        for name in names
        for days, value in ((">=365d", 0.24), ("90d-180d", 0.21), ("<90d", 0.12), ("180d-365d", 0.22))
    ]
    return pl.DataFrame([*rows, rows[0] | {"scope": "all"}, rows[0] | {"scope": "category:Sports"}])


def draw_all(*names: str) -> dict[str, bytes]:
    """Every figure of `names`."""
    questions, forecasts = asked(), said(*names, failure="refusal")
    bands, curves = calibration_overlays(forecasts, questions)
    return {
        "reliability": reliability_diagram(bins(*names), "Reliability", bands=bands, curves=curves),
        "confidence": confidence_histograms(forecasts, questions, "Confidence"),
        "coverage": coverage_bars(forecasts, questions, "Coverage"),
        "time": brier_over_time(forecasts, questions, "Over time"),
        "distance": score_by_distance(distances(*names), "By distance"),
    }


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every text that is drawn, as matplotlib's own objects."""
    drawn: list[Any] = []
    original = Figure.draw

    def draw(self: Figure, renderer: Any) -> None:
        drawn.extend(self.findobj(lambda artist: hasattr(artist, "get_parse_math") and artist.get_text()))  # type: ignore[attr-defined]
        original(self, renderer)

    monkeypatch.setattr(Figure, "draw", draw)
    yield drawn


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
def test_a_reliability_diagram_is_a_small_picture_with_something_on_it(names: tuple[str, ...]) -> None:
    assert len(colours(reliability_diagram(bins(*names), "Reliability"))) > 10


def test_a_wider_gap_changes_the_picture() -> None:
    p = np.linspace(0.02, 0.98, 49)
    calibrated, timid = (reliability_bins(np.repeat(p, 50), np.tile(np.arange(50), 49) < np.repeat(rate, 50) * 50) for rate in (p, p > 0.5))
    pictures = [reliability_diagram(frame.with_columns(forecaster=pl.lit("f")), "x") for frame in (calibrated, timid)]
    assert (pixels(pictures[0]) != pixels(pictures[1])).any()


def test_each_forecaster_has_a_panel_with_its_name_and_counts(texts: list[Any]) -> None:
    frame = bins("north", "south")
    reliability_diagram(frame, "Two of them")
    written = {text.get_text() for text in texts}
    assert {"north", "south", "Two of them"} <= written
    assert {str(count) for count in frame["n"]} <= written


def test_forecasters_beyond_the_last_panel_are_counted(texts: list[Any]) -> None:
    reliability_diagram(bins(*(f"f{index}" for index in range(MOST_PANELS + 3))), "Many")
    assert "and 3 more" in {text.get_text() for text in texts}


@pytest.mark.parametrize("untrusted", ["$\\frac{1}{0}$", "a $broken formula", "<script>alert(1)</script>", "_hidden", "x" * 100_000])
def test_untrusted_text_is_drawn_as_text(untrusted: str, texts: list[Any]) -> None:
    pixels(reliability_diagram(bins(untrusted, "b"), untrusted))
    pixels(score_comparison(board((untrusted, 1, 0.2)).with_columns(kind=pl.lit(untrusted), release=pl.lit(untrusted))))
    carrying = [text for text in texts if untrusted[:12] in text.get_text()]
    assert len(carrying) >= 4
    assert not any(text.get_parse_math() for text in carrying)
    assert all(len(text.get_text()) < 120 for text in carrying)


def test_control_characters_become_spaces(texts: list[Any]) -> None:
    reliability_diagram(bins("f"), "two\nlines\x00and\x1b[31mmore")
    assert "two lines and [31mmore" in {text.get_text() for text in texts}


def test_the_same_rows_give_the_same_bytes() -> None:
    assert reliability_diagram(bins("f", "g"), "x") == reliability_diagram(bins("f", "g"), "x")
    assert score_comparison(board(("a", 1, 0.2))) == score_comparison(board(("a", 1, 0.2)))


def test_nothing_to_draw_is_a_picture_that_says_so(texts: list[Any]) -> None:
    pixels(reliability_diagram(bins("f").clear(), "Nobody"))
    pixels(score_comparison(board()))
    written = {text.get_text() for text in texts}
    assert {"no forecast", "no forecaster"} <= written


def test_the_comparison_writes_scores_with_intervals_and_the_coverage_of_the_unranked(texts: list[Any]) -> None:
    pixels(score_comparison(board(("best", 1, 0.2), ("choosy", None, 0.1), ("silent", None, None))))
    written = {text.get_text() for text in texts}
    assert {
        "best",
        "0.2000  [0.180, 0.220]",
        "choosy (50% scored)",
        "0.1000  [0.080, 0.120]",
        "silent (50% scored)",
        "no score",
    } <= written


def test_plotting_leaves_no_global_state() -> None:
    before, figures = dict(rcParams), list(_pylab_helpers.Gcf.figs)
    reliability_diagram(bins("f"), "x")
    score_comparison(board(("a", 1, 0.2)))
    assert dict(rcParams) == before
    assert list(_pylab_helpers.Gcf.figs) == figures


@pytest.mark.parametrize("count", [1, pytest.param(MOST_PANELS + 1, marks=pytest.mark.slow)])
def test_every_figure_is_a_small_picture_for_one_forecaster_and_for_many(count: int) -> None:
    for png in draw_all(*(f"forecaster {index}" for index in range(count))).values():
        assert len(colours(png)) > 4


def test_every_figure_is_the_same_each_time() -> None:
    assert draw_all("a", "b") == draw_all("a", "b")


def test_the_order_of_rows_does_not_change_a_figure() -> None:
    questions, forecasts = asked(), said("a", "b", failure="refusal")
    mixed = forecasts.sample(fraction=1, shuffle=True, seed=3)
    assert brier_over_time(forecasts, questions, "x") == brier_over_time(mixed, questions.reverse(), "x")
    assert coverage_bars(forecasts, questions, "x") == coverage_bars(mixed, questions, "x")
    assert confidence_histograms(forecasts, questions, "x") == confidence_histograms(mixed, questions.reverse(), "x")


def test_figures_of_nothing_say_so(texts: list[Any]) -> None:
    questions, forecasts = asked(), said("a").clear()
    pixels(confidence_histograms(forecasts, questions, "x"))
    pixels(brier_over_time(forecasts, questions, "x"))
    pixels(coverage_bars(forecasts, questions, "x"))
    pixels(score_by_distance(distances("a").clear(), "x"))
    written = [text.get_text() for text in texts]
    assert {"no forecast", "no forecaster"} <= {*written}


@pytest.mark.parametrize("untrusted", ["$\\frac{1}{0}$", "<script>alert(1)</script>", "_hidden", "x" * 100_000])
def test_untrusted_text_is_drawn_as_text_in_every_figure(untrusted: str, texts: list[Any]) -> None:
    questions, forecasts = asked(), said(untrusted, "b", failure=untrusted)
    pixels(confidence_histograms(forecasts, questions, untrusted))
    pixels(coverage_bars(forecasts, questions, untrusted))
    pixels(brier_over_time(forecasts, questions, untrusted))
    pixels(score_by_distance(distances(untrusted, "b").with_columns(scope=pl.lit(f"distance:{untrusted}")), untrusted))
    carrying = [text for text in texts if untrusted.strip("_")[:6] in text.get_text()]
    assert len(carrying) >= 9
    assert not any(text.get_parse_math() for text in carrying)


def test_significance_groups_stand_beside_the_scores(texts: list[Any]) -> None:
    score_comparison(board(("best", 1, 0.15), ("second", 2, 0.17)).with_columns(group=pl.Series(["a", "ab"])))
    assert {"a", "ab", "the same letter: no significant difference"} <= {text.get_text() for text in texts}


def test_distances_are_drawn_from_near_to_far(texts: list[Any]) -> None:
    score_by_distance(distances("a"), "x")
    written = [text.get_text() for text in texts]
    order = [written.index(label) for label in ("<90d", "90d-180d", "180d-365d", ">=365d")]
    assert order == sorted(order)


def test_coverage_counts_questions_by_what_became_of_them(texts: list[Any]) -> None:
    forecasts = said("a", failure="content_filter").filter(pl.col("question_id") != "q1")
    coverage_bars(forecasts, asked(), "x")
    written = {text.get_text() for text in texts}
    assert {"answered", "content filter", "not asked", "89.1%"} <= written  # 107 of 120


def test_coverage_leaves_out_what_could_be_known(texts: list[Any]) -> None:
    forecasts = said("a", failure="refusal").with_columns(could_know=pl.int_range(pl.len()) < 60)
    coverage_bars(forecasts, asked(), "x")
    assert {"could have known", "90%"} <= {text.get_text() for text in texts}  # 54 of 60


def test_what_could_be_known_is_not_drawn() -> None:
    assert answered(said("a", could_know=True), asked()).is_empty()


def test_rare_failures_share_one_colour(texts: list[Any]) -> None:
    kinds = [f"kind{index}" for index in range(9)]
    forecasts = said("a").with_columns(p_yes=None, failure=pl.Series([kinds[index % 9] for index in range(120)]))
    coverage_bars(forecasts, asked(), "x")
    written = {text.get_text() for text in texts}
    assert "other failures" in written
    assert len(written & set(kinds)) == 5


def test_means_have_the_interval_of_their_clusters() -> None:
    """Copies of a question add nothing: the interval is that of the clusters, and one cluster has none."""
    rows = pl.DataFrame({"forecaster": "a", "month": "m", "cluster": ["c1", "c2", "c3"] * 10, "value": [0.1, 0.2, 0.6] * 10})
    found = means(rows, "month", "value").row(0, named=True)
    assert found["value"] == pytest.approx(0.3)
    alone = means(rows.head(3), "month", "value").row(0, named=True)
    assert (found["lower"], found["upper"]) == pytest.approx((alone["lower"], alone["upper"]))
    assert found["lower"] < 0.1 < 0.6 < found["upper"]
    assert means(rows.filter(pl.col("cluster") == "c1"), "month", "value").row(0, named=True)["lower"] is None


def test_samples_of_one_question_are_one_forecast() -> None:
    one = said("a", n=3)
    two = pl.concat([one, one.with_columns(sample=1, p_yes=pl.lit(1.0))], how="vertical_relaxed")
    rows = answered(two, asked(3))
    assert rows.height == 3
    assert rows["p"].to_list() == pytest.approx([(p + 1) / 2 for p in one["p_yes"]])


def test_overlays_name_their_forecaster() -> None:
    bands, curves = calibration_overlays(said("a", "b"), asked())
    assert set(bands["forecaster"]) == set(curves["forecaster"]) == {"a", "b"}
    assert (bands["lower"] <= bands["upper"]).all()


def test_kinds_keep_colours_of_their_own() -> None:
    kinds = ["base_rate", "constant", "language_model", "market_price", "random"]
    table = board(*((kind, rank, 0.1 * rank) for rank, kind in enumerate(kinds, start=1))).with_columns(kind=pl.Series(kinds))
    drawn = colours(score_comparison(table))
    wanted = [tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5)) for colour in COLOURS[: len(kinds)]]
    assert all(colour in drawn for colour in wanted)
