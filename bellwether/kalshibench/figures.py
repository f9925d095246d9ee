"""The figures of docs/kalshibench.md, drawn from an examination with labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bellwether.calibration import Scores, reliability_bins
from bellwether.calibration.comparison import p_text
from bellwether.calibration.consistency import corp_curve, reliability_bands
from bellwether.errors import ConfigError
from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.lake.storage import open_storage
from bellwether.report.plots import reliability_diagram
from bellwether.report.plots_canvas import BLUE, GREY, INK, ORANGE, PALE, RULE, Sheet, dress, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_figures(examination: Examination, folder: Path) -> list[Path]:
    """Write the figures as PNG files into `folder`, which is made where it is not; returns their paths.

    Raises `ConfigError` for an examination without corrected numbers.
    """
    models = [model for model in examination.models if model.corrected is not None and model.corrected.n]
    if not models:
        raise ConfigError("drawing the figures: no model has corrected numbers; give labels with the entries' own outcomes")
    pictures = {
        "kalshibench-scores.png": scores(models),
        "kalshibench-inversion.png": inversion(models),
        "kalshibench-reading.png": reading(max(models, key=_share_inverted)),
    }
    pairs = [comparison.pairs for comparison in examination.comparisons().values()]
    if pairs:
        pictures["kalshibench-pairs.png"] = differences(max(pairs, key=lambda frame: frame.height))
    storage = open_storage(str(folder))
    for name, png in pictures.items():
        storage.put(name, png)
    return [folder / name for name in pictures]


def scores(models: list[ModelExamination]) -> bytes:
    """Brier score of each model: published, answer-consistent with the same labels, and corrected with its interval; best first."""
    summary = sorted(models, key=lambda model: _corrected(model)[0])
    height = 1.5 + 0.34 * len(summary)
    sheet = Sheet(8.0, height, "Brier score: published and corrected")
    axes = sheet.figure.add_axes((0.24, 0.55 / height, 0.72, 1 - 1.45 / height))
    handles: list[object] = []
    for position, model in enumerate(summary):
        value, lower, upper = _corrected(model)
        published, same = _published(model), _value(model.consistent)
        axes.plot((published, value), (position, position), color=RULE, linewidth=1.2, zorder=1)
        (interval,) = axes.plot(
            (lower, upper), (position, position), color=BLUE, linewidth=2.6, alpha=0.45, solid_capstyle="butt", zorder=2
        )
        (before,) = axes.plot(published, position, "D", color=ORANGE, markersize=5.5, zorder=3)
        (between,) = axes.plot(same, position, "o", markerfacecolor="white", markeredgecolor=BLUE, markersize=5.5, zorder=3)
        (after,) = axes.plot(value, position, "o", color=BLUE, markersize=5.5, zorder=4)
        handles = [before, between, after, interval]
        _name(axes, position, model.name)
    axes.axvline(0.25, color=GREY, linewidth=0.9, linestyle=":", zorder=1)
    axes.text(0.25, -0.55, "always 0.5", ha="center", va="bottom", fontsize=7, color=GREY)
    _lines(axes, len(summary), "Brier score; lower is better")
    labels = ("published", "answer-consistent, same labels", "own labels", "95 % series-cluster interval")
    sheet.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.0, 1 - 0.36 / height), ncols=4)
    return sheet.png()


def inversion(models: list[ModelExamination]) -> bytes:
    """Published and corrected Brier score of each model against the share of its answers that were turned round."""
    sheet = Sheet(6.4, 4.0, "What the published Brier score measured")
    axes = sheet.figure.add_axes((0.11, 0.13, 0.86, 0.73))
    share = np.array([_share_inverted(model) for model in models])
    published = np.array([_published(model) for model in models])
    corrected = np.array([_corrected(model)[0] for model in models])
    axes.vlines(share, corrected, published, color=RULE, linewidth=1, zorder=1)
    axes.plot(share, published, "D", color=ORANGE, markersize=6, label="published", zorder=3)
    axes.plot(share, corrected, "o", color=BLUE, markersize=6, label="corrected", zorder=3)
    for rank, index in enumerate(np.argsort(share, kind="stable")):
        above = rank % 2 == 0  # neighbours stand apart
        where = (share[index], published[index] if above else corrected[index])
        axes.annotate(
            line(models[index].name, 24),
            where,
            (0, 7 if above else -7),
            textcoords="offset points",
            ha="center" if above else "right",
            va="bottom" if above else "top",
            fontsize=7.5,
            color=INK,
            parse_math=False,
        )
    axes.set_xlim(-0.05, min(1.05, share.max() + 0.12))
    axes.margins(y=0.18)
    axes.set_xlabel("share of answers that are “no” with a number below 50", fontsize=8, color=INK)
    axes.set_ylabel("Brier score", fontsize=8, color=INK)
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    dress(axes)
    axes.legend(loc="upper left", fontsize=7.5, frameon=False, labelcolor=INK)
    return sheet.png()


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


def differences(pairs: pl.DataFrame) -> bytes:
    """Paired differences of the corrected Brier score with their intervals and p after Holm's correction."""
    known = pairs.filter(pl.col("difference").is_not_null())
    height = 1.3 + 0.27 * max(known.height, 1)
    sheet = Sheet(8.0, height, "Paired differences of the corrected Brier score")
    axes = sheet.figure.add_axes((0.40, 0.55 / height, 0.44, 1 - 1.05 / height))
    for position, row in enumerate(known.iter_rows(named=True)):
        axes.plot(
            (row["lower"], row["upper"]), (position, position), color=BLUE, linewidth=2.4, alpha=0.45, solid_capstyle="butt", zorder=2
        )
        axes.plot(row["difference"], position, "o", color=BLUE, markersize=5.5, zorder=3)
        _name(axes, position, f"{line(row['forecaster'], 22)} – {line(row['other'], 22)}")
        p = "" if row["p_holm"] is None else f"p = {p_text(row['p_holm'], 2)}".replace("= <", "<")
        axes.text(1.03, position, p, transform=axes.get_yaxis_transform(), ha="left", va="center", fontsize=8, color=INK)
    axes.axvline(0, color=PALE, linewidth=1.2, zorder=1)
    axes.text(1.03, -0.6, "after Holm", transform=axes.get_yaxis_transform(), ha="left", va="bottom", fontsize=7, color=GREY)
    _lines(axes, known.height, "difference and 95 % interval over event families; negative: the first is better")
    return sheet.png()


def _published(model: ModelExamination) -> float:
    value = model.result.published.get("brier_score")
    return float("nan") if value is None else float(value)


def _value(scores: Scores | None) -> float:
    value = None if scores is None else scores["brier"].value
    return float("nan") if value is None else value


def _corrected(model: ModelExamination) -> tuple[float, float, float]:
    """Corrected Brier score and its interval, which is the score itself where there is none."""
    value = _value(model.corrected)
    brier = None if model.corrected is None else model.corrected["brier"]
    if brier is None or brier.lower is None or brier.upper is None:
        return value, value, value
    return value, brier.lower, brier.upper


def _share_inverted(model: ModelExamination) -> float:
    return model.findings.inverted / model.findings.answered


def _name(axes: Axes, position: int, name: str) -> None:
    where = axes.get_yaxis_transform()
    axes.text(-0.02, position, line(name, 48), transform=where, ha="right", va="center", fontsize=8.5, color=INK, parse_math=False)


def _lines(axes: Axes, count: int, label: str) -> None:
    axes.set_ylim(max(count, 1) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel(label, fontsize=8, color=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    dress(axes)
