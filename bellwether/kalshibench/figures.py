"""The figures of docs/kalshibench.md, drawn from an examination with labels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bellwether.calibration import reliability_bins
from bellwether.calibration.comparison import p_text
from bellwether.calibration.consistency import corp_curve, reliability_bands
from bellwether.calibration.forecasts import Floats
from bellwether.errors import ConfigError
from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.kalshibench.labels import Clusters
from bellwether.kalshibench.scoring import Interval, interval, pair_interval
from bellwether.lake.storage import open_storage
from bellwether.report.plots import reliability_diagram
from bellwether.report.plots_canvas import BLUE, GREY, INK, ORANGE, PALE, RULE, Sheet, dress, line
from bellwether.short_names import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLUSTERS = {Clusters.SERIES: "series", Clusters.FAMILY: "event families"}

#: Inches that a name, and a line of a note, take.
_ROW, _NOTE_LINE = 0.34, 0.15

#: Characters of a name, alone and in a pair.
_ALONE, _IN_PAIR = 32, 22


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The models of the figures, and what their readers must know: which are left out, and which answered other questions (`sets`)."""

    models: list[ModelExamination]
    left_out: list[str]
    short: str
    sets: str
    clusters: str

    @property
    def note(self) -> str:
        return f"{self.short} {self.sets}".strip()


def write_figures(examination: Examination, folder: Path) -> tuple[list[Path], list[str]]:
    """Write the figures as PNG files into `folder`, which is made where it is not.

    Returns their paths, and one sentence per model that is not in them. Raises `ConfigError` where no model has corrected numbers on its own set
    of questions.
    """
    drawn = _drawn(examination)
    if not drawn.models:
        raise ConfigError(
            "drawing the figures: no model has corrected numbers; give labels of its questions with the entries' own outcomes"
        )
    pictures = {
        "kalshibench-scores.png": scores(drawn),
        "kalshibench-inversion.png": inversion(drawn),
        "kalshibench-reading.png": reading(max(drawn.models, key=_share_inverted)),
    }
    left_out = list(drawn.left_out)
    comparisons = sorted(examination.comparisons().items(), key=lambda one: one[1].pairs.height, reverse=True)
    if comparisons:
        largest, *others = comparisons
        note = " ".join([drawn.short, *(f"Not drawn: the pairs on {name}." for name, _ in others)]).strip()
        pictures["kalshibench-pairs.png"] = differences(largest[1].pairs, drawn.clusters, note)
        left_out += [f"the pairs on {name}: the figure is of {largest[0]}, which has more" for name, _ in others]
    storage = open_storage(str(folder))
    for name, png in pictures.items():
        storage.put(name, png)
    return [folder / name for name in pictures], left_out


def _drawn(examination: Examination) -> _Drawn:
    models: list[ModelExamination] = []
    left_out: list[str] = []
    short: dict[str, list[str]] = {}
    for model in examination.models:
        if model.corrected is None or not model.corrected.n:
            short.setdefault("no labels of their questions", []).append(model.name)
            left_out.append(f"{model.name}: {model.unlabelled or 'no answered entry has a label of its own'}")
        elif model.borrowed:
            short.setdefault("labels of too few of their questions", []).append(model.name)
            left_out.append(f"{model.name}: its scores are partial, over {model.corrected.n} of {model.entries.height} entries")
        else:
            models.append(model)
    notes = [f"Not drawn: {', '.join(names)} ({why})." for why, names in short.items()]
    sets: dict[str, list[str]] = {}
    for model in models:
        sets.setdefault(str(model.question_set), []).append(model.name)
    others = sorted(sets.items(), key=lambda one: len(one[1]), reverse=True)[1:]
    other = [f"On other questions ({name}): {', '.join(names)}." for name, names in others]
    return _Drawn(models, left_out, " ".join(notes), " ".join(other), _CLUSTERS[examination.plan.clusters])


def scores(drawn: _Drawn) -> bytes:
    """Brier score of each model: published, answer-consistent with the same labels, and corrected with its interval; best first."""
    summary = sorted(drawn.models, key=lambda model: _corrected(model).value or 0.0)
    shown = _shown([model.name for model in summary], _ALONE)
    noted = _note_lines(drawn.note, 8.0)
    below = 0.55 + _NOTE_LINE * len(noted)
    height = below + 0.95 + _ROW * len(summary)
    sheet = Sheet(8.0, height, "Brier score: published and corrected")
    axes = sheet.figure.add_axes((0.24, below / height, 0.72, 1 - (below + 0.9) / height))
    handles: list[object] = []
    for position, model in enumerate(summary):
        corrected = _corrected(model)
        value = _float(corrected.value)
        published, same = _published(model), _float(interval(model.consistent, "brier").value)
        axes.plot((published, value), (position, position), color=RULE, linewidth=1.2, zorder=1)
        (band,) = axes.plot(_ends(corrected), (position, position), color=BLUE, linewidth=2.6, alpha=0.45, solid_capstyle="butt", zorder=2)
        (before,) = axes.plot(published, position, "D", color=ORANGE, markersize=5.5, zorder=3)
        (between,) = axes.plot(same, position, "o", markerfacecolor="white", markeredgecolor=BLUE, markersize=5.5, zorder=3)
        (after,) = axes.plot(value, position, "o", color=BLUE, markersize=5.5, zorder=4)
        handles = [before, between, after, band]
        _name(axes, position, shown[model.name])
    axes.axvline(0.25, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
    axes.text(0.25, -0.55, "always 0.5", ha="center", va="bottom", fontsize=7, color=GREY)
    _lines(axes, len(summary), "Brier score; lower is better")
    labels = ("published", "answer-consistent, same labels", "own labels", f"95 % interval over {drawn.clusters}")
    sheet.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.0, 1 - 0.36 / height), ncols=4)
    _note(sheet, noted)
    return sheet.png()


def inversion(drawn: _Drawn) -> bytes:
    """Published and corrected Brier score of each model against the share of its answers that were turned round."""
    models = drawn.models
    noted = _note_lines(drawn.note, 7.2)
    below = 0.5 + _NOTE_LINE * len(noted)
    height = max(3.6, 1.1 + 0.21 * len(models)) + below
    sheet = Sheet(7.2, height, "What the published Brier score measured")
    axes = sheet.figure.add_axes((0.1, below / height, 0.62, 1 - (below + 0.6) / height))
    share = np.array([_share_inverted(model) for model in models])
    published = np.array([_published(model) for model in models])
    corrected = np.array([_float(_corrected(model).value) for model in models])
    axes.vlines(share, corrected, published, color=RULE, linewidth=1, zorder=1)
    axes.plot(share, published, "D", color=ORANGE, markersize=6, label="published", zorder=3)
    axes.plot(share, corrected, "o", color=BLUE, markersize=6, label="corrected", zorder=3)
    axes.set_xlim(-0.05, min(1.05, share.max() + 0.12))
    axes.margins(y=0.18)
    _names_at_right(axes, models, share, np.where(np.isnan(published), corrected, published))
    axes.set_xlabel("share of answers that are “no” with a number below 50", fontsize=8, color=INK)
    axes.set_ylabel("Brier score", fontsize=8, color=INK)
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    dress(axes)
    axes.legend(loc="upper left", fontsize=7.5, frameon=False, labelcolor=INK)
    _note(sheet, noted)
    return sheet.png()


def _names_at_right(axes: Axes, models: Sequence[ModelExamination], x: Floats, y: Floats) -> None:
    """The models' names to the right of the axes, one below the other, each with the number of its point at (x, y) and joined to it."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    right = axes.get_xlim()[1]
    inches = axes.get_position().height * axes.figure.get_figheight()  # type: ignore[union-attr]
    places = spread(y, 0.17 / inches * (high - low), low, high)
    shown = _shown([model.name for model in models], _ALONE)
    for number, index in enumerate(np.argsort(-y, kind="stable"), 1):
        axes.plot((x[index], right), (y[index], y[index]), color=PALE, linewidth=0.6, linestyle=":", zorder=0)
        axes.annotate(str(number), (x[index], y[index]), (5, 1), textcoords="offset points", fontsize=6.5, color=INK, va="bottom", zorder=5)
        axes.annotate(
            f"{number}  {shown[models[index].name]}",
            (right, y[index]),
            (1.05, places[index]),
            textcoords=axes.get_yaxis_transform(),
            ha="left",
            va="center",
            fontsize=7.5,
            color=INK,
            parse_math=False,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)},
        )


def spread(values: Floats, gap: float, low: float, high: float) -> Floats:
    """Places for labels of `values` (N,), in their order, at least `gap` apart and within [low, high] where there is room."""
    order = np.argsort(values, kind="stable")
    places = np.clip(values[order], low, high)
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + gap)
    top = high
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], top)
        top = places[index] - gap
    placed = np.empty_like(places)
    placed[order] = places
    return placed


def reading(model: ModelExamination) -> bytes:
    """Reliability of one model's forecasts, as published and read in agreement with its answers, on the same labels."""
    rows = model.entries.filter(pl.col("predicted_answer").is_not_null() & pl.col("scored").is_not_null())
    outcome = (rows["scored"] == "yes").to_numpy()
    bins, bands, curves = [], [], []
    for name, column in (("as published", "p_yes"), ("consistent with the answer", "p_consistent")):
        forecaster = pl.lit(name).alias("forecaster")
        p = rows[column].to_numpy()
        bins.append(reliability_bins(p, outcome).with_columns(forecaster))
        bands.append(reliability_bands(p).select(forecaster, "bin", "lower", "upper").drop_nulls())
        curves.append(corp_curve(p, outcome).select(forecaster, "forecast", "recalibrated"))
    return reliability_diagram(
        pl.concat(bins), f"{model.name}: the same answers, read in two ways", bands=pl.concat(bands), curves=pl.concat(curves)
    )


def differences(pairs: pl.DataFrame, clusters: str, note: str) -> bytes:
    """Paired differences of the corrected Brier score with their intervals and p after Holm's correction."""
    known = pairs.filter(pl.col("difference").is_not_null())
    shown = _shown([*known["forecaster"], *known["other"]], _IN_PAIR)
    noted = _note_lines(note, 8.0)
    below = 0.55 + _NOTE_LINE * len(noted)
    height = below + 0.75 + 0.22 * max(known.height, 2)
    sheet = Sheet(8.0, height, "Paired differences of the corrected Brier score")
    axes = sheet.figure.add_axes((0.40, below / height, 0.44, 1 - (below + 0.55) / height))
    for position, row in enumerate(known.iter_rows(named=True)):
        difference = pair_interval(row)
        axes.plot(_ends(difference), (position, position), color=BLUE, linewidth=2.4, alpha=0.45, solid_capstyle="butt", zorder=2)
        axes.plot(_float(difference.value), position, "o", color=BLUE, markersize=5, zorder=3)
        _name(axes, position, f"{shown[row['forecaster']]} – {shown[row['other']]}", 8)
        p = "" if row["p_holm"] is None else f"p = {p_text(row['p_holm'], 2)}".replace("= <", "<")
        axes.text(1.03, position, p, transform=axes.get_yaxis_transform(), ha="left", va="center", fontsize=8, color=INK)
    axes.axvline(0, color=PALE, linewidth=1.2, zorder=1)
    axes.text(1.03, -0.6, "after Holm", transform=axes.get_yaxis_transform(), ha="left", va="bottom", fontsize=7, color=GREY)
    _lines(axes, known.height, f"difference and 95 % interval over {clusters}; negative: the first is better")
    _note(sheet, noted)
    return sheet.png()


def _published(model: ModelExamination) -> float:
    return _float(model.result.published.get("brier_score"))


def _corrected(model: ModelExamination) -> Interval:
    return interval(model.corrected, "brier")


def _float(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _ends(estimate: Interval) -> tuple[float, float]:
    """The ends of an interval, which are the value itself where there is none."""
    if estimate.lower is None or estimate.upper is None:
        return _float(estimate.value), _float(estimate.value)
    return estimate.lower, estimate.upper


def _share_inverted(model: ModelExamination) -> float:
    return model.findings.inverted / model.findings.answered


def _note_lines(note: str, width: float) -> list[str]:
    return textwrap.wrap(line(note, 1_000), int(17 * width))


def _note(sheet: Sheet, noted: Sequence[str]) -> None:
    """What the readers of a figure must know, below it."""
    for index, text in enumerate(reversed(noted)):
        where = (0.15 / sheet.width, (0.06 + _NOTE_LINE * index) / sheet.height)
        sheet.figure.text(*where, text, ha="left", va="bottom", fontsize=7, color=GREY, parse_math=False)


def _shown(names: Sequence[str], most: int) -> dict[str, str]:
    """Each name on one line of at most `most` characters, distinct from the others."""
    single = {name: line(name, 1_000) for name in names}
    short = shortened(list(single.values()), most)
    return {name: short[one] for name, one in single.items()}


def _name(axes: Axes, position: int, name: str, size: float = 8.5) -> None:
    where = axes.get_yaxis_transform()
    axes.text(-0.02, position, name, transform=where, ha="right", va="center", fontsize=size, color=INK, parse_math=False)


def _lines(axes: Axes, count: int, label: str) -> None:
    axes.set_ylim(max(count, 1) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel(label, fontsize=8, color=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    dress(axes)
