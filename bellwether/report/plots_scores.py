"""Figures that set forecasters side by side: Brier scores with intervals, and how much each answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.report.plots_canvas import BLUE, COLOURS, GREY, INK, MOST_LINES, PALE, RULE, Sheet, dress, empty, line
from bellwether.units import floor_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Kinds of failure that have a colour and a hatch of their own; the rest are one.
_FAILURES = (
    ("#c2562e", ""),
    ("#a8862b", "////"),
    ("#7a5aa6", "...."),
    ("#3d8361", "xxxx"),
    ("#9c4a6d", "----"),
    ("#5f6b76", "||||"),
)


def score_comparison(leaderboard: pl.DataFrame) -> bytes:
    """Brier scores with their intervals, best first, as a PNG below 100 kB.

    `leaderboard` holds rows of benchmark/leaderboard. The letters at the right are significance groups. Unranked forecasters stand last in grey
    with the share of questions that count for them; the dotted line is the score of always saying 0.5.
    """
    table = leaderboard.sort("release", "rank", "brier", "forecaster", nulls_last=True)
    shown = table.head(MOST_LINES)
    grouped = "group" in shown.columns and shown["group"].count() > 0
    height = 1.6 + 0.32 * max(shown.height, 1)
    sheet = Sheet(8.0, height, "Brier score: " + ", ".join(table["release"].unique().sort()))
    axes = sheet.figure.add_axes((0.31, 0.55 / height, 0.41 if grouped else 0.47, 1 - 1.45 / height))
    kinds = shown.filter(pl.col("rank").is_not_null())["kind"].unique().sort().to_list()
    colours = {kind: COLOURS[index % len(COLOURS)] for index, kind in enumerate(kinds)}
    for position, row in enumerate(shown.iter_rows(named=True)):
        _score_line(axes, position, row, colours[row["kind"]] if row["rank"] is not None else GREY)
    if shown.is_empty():
        empty(axes, "no forecaster")
    _score_axes(axes, shown)
    if grouped:
        axes.text(1.50, -0.55, "group", transform=axes.get_yaxis_transform(), ha="left", va="bottom", fontsize=7, color=GREY)
        sheet.figure.text(0.02, 0.005, "the same letter: no significant difference", va="bottom", fontsize=7, color=GREY)
    handles = [axes.plot([], [], "o", color=colour, markersize=5)[0] for colour in colours.values()]
    below_title = (0.0, 1 - 0.36 / height)
    sheet.legend(handles, [line(kind, 24) for kind in colours], loc="upper left", bbox_to_anchor=below_title, ncols=8)
    sheet.note(table.height - MOST_LINES)
    return sheet.png()


def coverage_bars(forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """What became of each forecaster's questions: answered, or why not, as a PNG below 100 kB.

    `forecasts` and `questions` are rows of benchmark/forecasts and benchmark/questions of one release. A question is answered when any of its
    samples is; else it counts by the failure of its first sample. What the forecaster could have known stands apart and is not in the share
    at the right. Questions without a row were not asked.
    """
    counts = _outcomes(forecasts, questions.height)
    names = counts["forecaster"].unique(maintain_order=True).to_list()
    shown = names[:MOST_LINES]
    styles = _styles(counts)
    counts = counts.with_columns(pl.when(pl.col("outcome").is_in(list(styles))).then("outcome").otherwise(pl.lit(_OTHER)).alias("outcome"))
    head = 0.9 + 0.2 * (len(styles) > _PER_ROW)
    height = 0.6 + head + 0.3 * max(len(shown), 1)
    sheet = Sheet(8.0, height, title)
    axes = sheet.figure.add_axes((0.27, 0.5 / height, 0.61, 1 - (0.5 + head) / height))
    for position, name in enumerate(shown):
        own = counts.filter(pl.col("forecaster") == name)
        parts = [(int(own.filter(pl.col("outcome") == outcome)["n"].sum()), *style) for outcome, style in styles.items()]
        known = int(own.filter(pl.col("outcome") == _KNOWN)["n"].sum())
        _coverage_line(axes, position, name, parts, questions.height - known)
    if not shown:
        empty(axes, "no forecaster")
    axes.set_xlim(0, max(questions.height, 1))
    axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel("questions", fontsize=8, color=INK)
    dress(axes)
    _coverage_legend(sheet, axes, styles)
    sheet.note(len(names) - MOST_LINES)
    return sheet.png()


_ANSWERED, _OTHER, _KNOWN, _NOT_ASKED = "answered", "other failures", "could have known", "not asked"


#: Entries of the legend in one row.
_PER_ROW = 5

#: What is no failure: questions that do not count, or that nobody put.
_APART = {_KNOWN: (PALE, "\\\\\\\\"), _NOT_ASKED: (RULE, "")}


def _outcomes(forecasts: pl.DataFrame, asked: int) -> pl.DataFrame:
    """forecaster, outcome, n: questions by what became of them; forecasters with the most answers first."""
    first = forecasts.sort("forecaster", "question_id", "sample").group_by("forecaster", "question_id", maintain_order=True)
    failure = pl.coalesce(pl.col("failure").drop_nulls().first(), pl.lit("failed"))
    given = pl.when(pl.col("p_yes").is_not_null().any()).then(pl.lit(_ANSWERED)).otherwise(failure)
    each = first.agg(outcome=pl.when(pl.col("could_know").any()).then(pl.lit(_KNOWN)).otherwise(given))
    counts = each.group_by("forecaster", "outcome").agg(n=pl.len().cast(pl.Int64))
    rest = counts.group_by("forecaster").agg(outcome=pl.lit(_NOT_ASKED), n=asked - pl.col("n").sum())
    whole = pl.concat([counts, rest.select("forecaster", "outcome", "n").filter(pl.col("n") > 0)])
    answered = pl.col("n").filter(pl.col("outcome") == _ANSWERED).sum().over("forecaster")
    return whole.sort(answered, "forecaster", "outcome", descending=[True, False, False])


def _styles(counts: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Colour and hatch of each outcome, in the order drawn: answered, the commonest failures, the others, and what is no failure."""
    totals = counts.group_by("outcome").agg(pl.col("n").sum()).sort("n", "outcome", descending=[True, False])
    outcomes = totals["outcome"].to_list()
    failures = [kind for kind in outcomes if kind not in {_ANSWERED, _KNOWN, _NOT_ASKED}]
    own = failures if len(failures) <= len(_FAILURES) else [*failures[: len(_FAILURES) - 1], _OTHER]
    apart = {kind: style for kind, style in _APART.items() if kind in outcomes}
    return {_ANSWERED: (BLUE, ""), **dict(zip(own, _FAILURES, strict=False)), **apart}


def _coverage_line(axes: Axes, position: int, name: str, parts: list[tuple[int, str, str]], asked: int) -> None:
    beside = axes.get_yaxis_transform()
    axes.text(-0.02, position, line(name, 32), transform=beside, ha="right", va="center", fontsize=8.5, color=INK, parse_math=False)
    start = 0
    for n, colour, hatch in parts:
        axes.barh(position, n, left=start, height=0.68, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4)
        start += n
    share = floor_percent(parts[0][0] / asked) if asked else "–"
    axes.text(1.02, position, share, transform=beside, ha="left", va="center", fontsize=8, color=INK)


def _coverage_legend(sheet: Sheet, axes: Axes, styles: dict[str, tuple[str, str]]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0.4) for colour, hatch in styles.values()]
    where = (0.0, 1 - 0.36 / sheet.height)
    sheet.legend(handles, [line(kind.replace("_", " "), 20) for kind in styles], loc="upper left", bbox_to_anchor=where, ncols=_PER_ROW)


def _score_line(axes: Axes, position: int, row: dict[str, Any], colour: str) -> None:
    if row["rank"] is not None:
        ink, name = INK, line(row["forecaster"], 32)
    else:
        ink, name = GREY, f"{line(row['forecaster'], 20)} ({floor_percent(row['coverage'])} scored)"
    beside = axes.get_yaxis_transform()
    axes.text(-0.02, position, name, transform=beside, ha="right", va="center", fontsize=8.5, color=ink, parse_math=False)
    axes.text(1.03, position, _interval(row), transform=beside, ha="left", va="center", fontsize=8, color=ink)
    if row.get("group"):
        axes.text(1.50, position, line(row["group"], 8), transform=beside, ha="left", va="center", fontsize=8, color=ink, parse_math=False)
    if row["brier_lower"] is not None:
        ends = (row["brier_lower"], row["brier_upper"])
        axes.plot(ends, (position, position), color=colour, linewidth=2.4, alpha=0.45, solid_capstyle="butt", zorder=2)
    if row["brier"] is not None:
        axes.plot(row["brier"], position, "o", color=colour, markersize=6, zorder=3)


def _interval(row: dict[str, Any]) -> str:
    if row["brier"] is None:
        return "no score"
    return f"{row['brier']:.4f}" + ("" if row["brier_lower"] is None else f"  [{row['brier_lower']:.3f}, {row['brier_upper']:.3f}]")


def _score_axes(axes: Axes, shown: pl.DataFrame) -> None:
    ends = [value for name in ("brier", "brier_lower", "brier_upper") for value in shown[name].drop_nulls()]
    low, high = min([*ends, 0.2]), max([*ends, 0.27])
    lines = max(shown.height, 1)
    axes.set_xlim(max(low - 0.05 * (high - low), -0.005), high + 0.05 * (high - low))
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_yticks([])
    axes.axvline(0.25, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
    axes.text(0.25, -0.55, "always 0.5", ha="center", va="bottom", fontsize=7, color=GREY)
    axes.set_xlabel("Brier score and 95 % interval over clusters; lower is better", fontsize=8, color=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    dress(axes)
