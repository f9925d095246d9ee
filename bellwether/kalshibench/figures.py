"""Figures of docs/kalshibench.md, drawn from an examination with labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from bellwether.calibration import reliability_bins
from bellwether.calibration.consistency import corp_curve, reliability_bands
from bellwether.errors import ConfigError
from bellwether.figures.canvas import (
    BLUE,
    FILE_BYTES,
    INK,
    ORANGE,
    RULE,
    add_title,
    distinct_labels,
    fill_chart,
    layer_charts,
    number,
    png,
    rule_at,
)
from bellwether.figures.intervals import differences as chart_of
from bellwether.figures.reliability import reliability_diagram
from bellwether.formatting import p_value
from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.kalshibench.scoring import ScoreInterval, read_interval, read_pair_interval
from bellwether.lake.storage import open_storage


@dataclass(frozen=True, slots=True)
class _FigureContext:
    """Models that are drawn, and notes on the others: which are left out (`left_out`; `short` for captions), and which have other questions
    (`sets`).
    """

    models: list[ModelExamination]
    left_out: list[str]
    short: str
    sets: str
    clusters: str

    @property
    def note(self) -> str:
        return f"{self.short} {self.sets}".strip()


def write_figures(examination: Examination, folder: Path) -> tuple[list[Path], list[str]]:
    """Write all figures as PNG files into `folder`, which is created if missing.

    Returns their paths, and one sentence per model that is left out. Raises `ConfigError` if no model has corrected numbers on its own question
    set.
    """
    context = _build_context(examination)
    if not context.models:
        raise ConfigError(
            "drawing the figures: no model has corrected numbers; give labels of its questions with the entries' own outcomes"
        )
    charts = {
        "kalshibench-scores.png": draw_scores(context),
        "kalshibench-inversion.png": draw_inversion(context),
        "kalshibench-reading.png": draw_reliability(max(context.models, key=_share_inverted)),
    }
    left_out = list(context.left_out)
    comparisons = sorted(examination.comparisons().items(), key=lambda item: item[1].pairs.height, reverse=True)
    if comparisons:
        largest, *others = comparisons
        note = " ".join([context.short, *(f"Not drawn: the pairs on {name}." for name, _ in others)]).strip()
        charts["kalshibench-pairs.png"] = draw_differences(largest[1].pairs, context.clusters, note)
        left_out += [f"the pairs on {name}: the figure is of {largest[0]}, which has more" for name, _ in others]
    storage = open_storage(str(folder))
    for name, chart in charts.items():
        storage.put(name, png(chart, FILE_BYTES))
    return [folder / name for name in charts], left_out


def _build_context(examination: Examination) -> _FigureContext:
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
    others = sorted(sets.items(), key=lambda item: len(item[1]), reverse=True)[1:]
    other = [f"On other questions ({name}): {', '.join(names)}." for name, names in others]
    return _FigureContext(models, left_out, " ".join(notes), " ".join(other), examination.plan.clusters.plural)


def draw_scores(context: _FigureContext) -> alt.LayerChart:
    """Draw each model's Brier score in three versions, best first: published, consistent with the answers on the same labels, and corrected
    with its interval.
    """
    models = sorted(context.models, key=lambda model: _corrected(model).value or 0.0)
    short = distinct_labels([model.name for model in models])
    rows, intervals = [], f"95 % interval over {context.clusters}"
    for model in models:
        corrected = _corrected(model)
        same = read_interval(model.consistent, "brier").value
        values = {"published": _published(model), "answer-consistent, same labels": same, "own labels": corrected.value}
        ends = {"lower": corrected.lower, "upper": corrected.upper}
        rows += [
            {"name": short[model.name], "kind": kind, "value": value, **(ends if kind == "own labels" else {})}
            for kind, value in values.items()
        ]
    kinds = list(_SHAPES)
    own = alt.Chart().encode(y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)))
    axis = "Brier score; lower is better"
    bars = own.transform_filter(alt.FieldValidPredicate(field="lower", valid=True)).mark_rule(strokeWidth=3, color=BLUE, opacity=0.45)
    points = own.transform_filter(alt.FieldValidPredicate(field="value", valid=True)).mark_point(filled=True, opacity=1, size=60)
    layers = [
        own.mark_line(color=RULE).encode(x=number("value", alt.X, title=axis), detail="name:N"),
        bars.encode(x=number("lower", alt.X, title=axis), x2="upper:Q"),
        points.encode(
            x=number("value", alt.X, title=axis),
            shape=alt.Shape(
                "kind:N", scale=alt.Scale(domain=kinds, range=[shape for shape, _ in _SHAPES.values()]), legend=alt.Legend(orient="top")
            ),
            color=alt.Color(
                "kind:N", scale=alt.Scale(domain=kinds, range=[paint for _, paint in _SHAPES.values()]), legend=alt.Legend(orient="top")
            ),
        ),
    ]
    chart = layer_charts(rule_at(0.25, "x"), *layers).properties(width=460, height=alt.Step(26))
    note = f"bars: {intervals}; dotted: always 0.5"
    return add_title(fill_chart(chart, rows), "Brier score: published and corrected", note, context.short, context.sets)


_SHAPES = {"published": ("diamond", ORANGE), "answer-consistent, same labels": ("square", "#8fb0cf"), "own labels": ("circle", BLUE)}


def draw_inversion(context: _FigureContext) -> alt.HConcatChart:
    """Draw each model's published and corrected Brier score against the share of its answers whose probability the published scoring
    inverted.
    """
    models = sorted(context.models, key=lambda model: -(_published(model) or _corrected(model).value or 0.0))
    short = distinct_labels([model.name for model in models], 36)
    rows = [
        {"number": str(place), "name": short[model.name], "share": _share_inverted(model), "published": _published(model)}
        | {"corrected": _corrected(model).value}
        for place, model in enumerate(models, 1)
    ]
    height = max(300, 20 * len(rows))
    x = alt.X("share:Q", title="share of answers that are “no” with a number below 50", scale=alt.Scale(zero=False))
    own = alt.Chart().encode(x=x)
    layers = [own.mark_rule(color=RULE).encode(y=number("published", title="Brier score"), y2="corrected:Q")]
    for column, (shape, paint) in {"published": ("diamond", ORANGE), "corrected": ("circle", BLUE)}.items():
        mark = own.mark_point(filled=True, opacity=1, size=60, shape=shape, color=paint)
        layers.append(mark.encode(y=number(column, title="Brier score")))
    layers.append(
        own.mark_text(dx=7, dy=-6, align="left", fontSize=9, color=INK).encode(y=number("published", title="Brier score"), text="number:N")
    )
    plane = layer_charts(*layers).properties(width=440, height=height)
    key = alt.Chart().encode(y=alt.Y("number:N", sort=None, axis=None))
    names = layer_charts(
        key.mark_text(align="right", fontSize=10.5, color=INK).encode(x=alt.value(18), text="number:N"),
        key.mark_text(align="left", fontSize=10.5, color=INK, limit=260).encode(x=alt.value(26), text="name:N"),
    ).properties(width=230, height=alt.Step(18), view=alt.ViewConfig(stroke=None))
    chart = fill_chart(alt.hconcat(plane, names), rows)
    return add_title(chart, "What the published Brier score measured", "orange: published, blue: corrected", context.short, context.sets)


def draw_reliability(model: ModelExamination) -> Any:
    """Draw the reliability of one model's forecasts on the same labels: probabilities as published, and consistent with the answers."""
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


def draw_differences(pairs: pl.DataFrame, clusters: str, note: str) -> alt.LayerChart:
    """Draw the differences of corrected Brier scores between models, with intervals and p-values after Holm's correction."""
    defined = pairs.filter(pl.col("difference").is_not_null())
    texts = {}
    for place, row in enumerate(defined.iter_rows(named=True)):
        texts[place] = "" if row["p_holm"] is None else f"p = {p_value(row['p_holm'], 2)}".replace("= <", "<")
    ends = pl.DataFrame([asdict(read_pair_interval(row)) for row in defined.iter_rows(named=True)], infer_schema_length=None)
    rows = defined.with_columns(lower=ends["lower"], upper=ends["upper"]) if defined.height else defined
    axis = f"difference and 95 % interval over {clusters}; negative: the first is better"
    title = "Paired differences of the corrected Brier score"
    return add_title(chart_of(rows, axis, texts=texts), title, "at the right: p after Holm's correction", note)


def _published(model: ModelExamination) -> float | None:
    value = model.result.published.get("brier_score")
    return None if value is None else float(value)


def _corrected(model: ModelExamination) -> ScoreInterval:
    return read_interval(model.corrected, "brier")


def _share_inverted(model: ModelExamination) -> float:
    """Return the share of a model's answers whose probability the published scoring inverted."""
    return model.findings.inverted / model.findings.answered
