"""A result as one HTML page that needs nothing else: tables, and plots that answer the mouse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.calibration import METRICS, Better
from bellwether.pages import COLOURS, GREY, Cell, Page, Rows, Section, plot, translucent
from bellwether.scoring.overlays import bands_and_curves
from bellwether.scoring.sheet import MARKET
from bellwether.scoring.show import by_forecaster, group_name, number, p_cell, reasons, summary
from bellwether.scoring.words import LOSSES, words
from bellwether.units import floor_percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from bellwether.scoring.score import Progress, ScoreResult

#: Forecasters that the diagram shows before the reader chooses.
_SHOWN = 3

_HEADLINE = ("brier", "log_loss", "brier_skill", "skill_vs_market", "roc_auc")
_ERRORS = ("ece", "smece")
_CHOICES = ("brier", "log_loss", "brier_skill", "skill_vs_market", "skill_vs_half", "roc_auc", "accuracy")


def write_page(result: ScoreResult, path: Path, progress: Progress | None = None) -> None:
    """Write the page whole. It loads nothing from elsewhere."""
    bands_and_curves(result, progress)
    page(result).write(path)


def page(result: ScoreResult) -> Page:
    """The page of a result. Names and labels are escaped; the same result gives the same page."""
    counts, columns = summary(result)
    title = f"Scores of {', '.join(result.sources)}"
    return Page(title, counts, columns, list(_sections(result)), [*reasons(result), *result.notes])


def _sections(result: ScoreResult) -> Iterator[Section]:
    level, (bands, curves) = f"{100 * result.plan.level:.4g} %", bands_and_curves(result)
    yield Section(
        "Scores",
        _headline(result),
        f"In brackets: {level} intervals; clusters: {result.clusters}. Brier score and log loss: lower is better. Skill is 1 less the ratio of Brier "
        "scores: above 0 is better than the reference. Coverage: share of questions with a forecast. "
        f"Group: forecasters that share a letter do not differ significantly in {LOSSES[result.loss]}.",
    )
    yield Section(
        "Calibration",
        _calibration(result),
        "By chance: what calibrated forecasts would have on average; p: of a test that the forecasts are calibrated. Reliability and resolution: parts "
        "of the Brier score, without bias; a reliability of 0 is calibrated.",
    )
    yield Section(
        "Reliability",
        text="Points: observed frequency of yes in each bin, with its interval. Bands: where the points of a calibrated forecaster would lie. "
        "A click on a name shows or hides a forecaster, a double click shows it alone.",
        plot=plot(_reliability(result, bands), "reliability"),
    )
    yield Section(
        "Reliability without bins",
        text="The frequency of yes that isotonic regression gives each forecast (CORP), and where the curve of a calibrated forecaster would lie.",
        plot=plot(_curves(result, curves), "curves"),
    )
    yield Section("Metrics with intervals", plot=plot(_scores(result), "scores"))
    if result.pairs["difference"].count():
        yield Section(
            "Paired differences",
            _pairs(result),
            f"Difference of {LOSSES[result.loss]} on common questions, first less second: below 0 the first is better. p Holm: corrected for the number of pairs.",
            plot(_differences(result), "differences"),
        )
    for (by,), groups in result.groups.partition_by("by", as_dict=True, maintain_order=True).items():
        yield Section(f"By {by}", _by(groups, str(by)))
    details = [(name, _metrics(metrics)) for name, metrics in by_forecaster(result.scores)]
    yield Section("All metrics", details=details)


def _interval(row: dict[str, Any], digits: int = 3, sign: str = "") -> Cell:
    if row["value"] is None:
        return Cell("–", title=row["reason"] or "")
    ends = "" if row["lower"] is None else f"[{number(row['lower'], sign, digits)}, {number(row['upper'], sign, digits)}]"
    return Cell(number(row["value"], sign, digits), ends, row["reason"] or "")


def _headline(result: ScoreResult) -> Rows:
    letters = dict(result.ranking.select("forecaster", "group").iter_rows())
    rows = []
    for name, metrics in by_forecaster(result.scores):
        scores = [_score(name, metrics, metric) for metric in _HEADLINE]
        counts = [Cell(str(metrics["brier"][column])) for column in ("n", "n_clusters")]
        share = metrics["coverage"]["value"]
        rows.append([Cell(name), *counts, Cell("–" if share is None else floor_percent(share)), *scores, Cell(letters.get(name) or "")])
    return Rows(("forecaster", "n", "clusters", "coverage", *(words(metric) for metric in _HEADLINE), "group"), rows)


def _score(name: str, metrics: dict[str, dict[str, Any]], metric: str) -> Cell:
    if name == MARKET and metric == "skill_vs_market":
        return Cell("–")
    return _interval(metrics[metric], 3, "+" if "skill" in metric else "")


def _calibration(result: ScoreResult) -> Rows:
    rows = []
    for name, metrics in by_forecaster(result.scores):
        cells = [Cell(name)]
        for metric in _ERRORS:
            one = metrics[metric]
            cells += [Cell("–" if one[column] is None else f"{one[column]:.3f}") for column in ("value", "expected")]
            cells.append(Cell(p_cell(one["p_calibrated"])))
        cells += [_interval(metrics[metric], 4) for metric in ("murphy_reliability_debiased", "murphy_resolution_debiased")]
        rows.append(cells)
    errors = (head for metric in _ERRORS for head in (words(metric), "by chance", "p"))
    return Rows(("forecaster", *errors, "reliability", "resolution"), rows)


def _pairs(result: ScoreResult) -> Rows:
    rows = []
    for row in result.pairs.iter_rows(named=True):
        difference = _interval({**row, "value": row["difference"]}, 4, "+")
        tests = [Cell(p_cell(row[name])) for name in ("p", "p_holm", "p_mcnemar")]
        rows.append([Cell(row["forecaster"]), Cell(row["other"]), Cell(str(row["n"])), difference, *tests])
    return Rows(("first", "second", "n", "difference", "p", "p Holm", "p McNemar"), rows, texts=2)


def _by(groups: pl.DataFrame, by: str) -> Rows:
    rows = []
    for (group,), part in groups.partition_by("group", as_dict=True, maintain_order=True).items():
        for name, metrics in by_forecaster(part):
            brier = metrics["brier"]
            scores = [
                _interval(metrics[metric], 3, "+" if "skill" in metric else "") for metric in ("brier", "brier_skill", "skill_vs_market")
            ]
            counts = [Cell(str(brier["n"])), Cell(str(brier["n_clusters"]))]
            rows.append([Cell(group_name(group)), Cell(name), *counts, *scores])
    heads = (by, "forecaster", "n", "clusters", *(words(metric) for metric in ("brier", "brier_skill", "skill_vs_market")))
    return Rows(heads, rows, texts=2)


def _metrics(metrics: dict[str, dict[str, Any]]) -> Rows:
    rows = []
    for name, row in metrics.items():
        chance = "" if row["expected"] is None else f"{row['expected']:.4f}"
        p = "" if row["p_calibrated"] is None else p_cell(row["p_calibrated"])
        about = METRICS[name].meaning if name in METRICS else ""
        rows.append(
            [
                Cell(name, title=about),
                _interval({**row, "reason": None}, 4),
                Cell(chance),
                Cell(p),
                Cell(row["method"] or row["reason"] or ""),
            ]
        )
    return Rows(("metric", "value", "by chance", "p", "interval"), rows)


def _reliability(result: ScoreResult, bands: pl.DataFrame) -> go.Figure:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.8, 0.2], vertical_spacing=0.04)
    figure.add_trace(_diagonal(), 1, 1)
    for name, common in _traces(result):
        bins = result.reliability.filter((pl.col("forecaster") == name) & (pl.col("n") > 0))
        band = bins.join(bands.filter(pl.col("forecaster") == name), on="bin").sort("bin")
        figure.add_trace(_area(band["mean_forecast"], band["lower"], band["upper"], common), 1, 1)
        figure.add_trace(_points(bins, common), 1, 1)
        middle = ((bins["lower_edge"] + bins["upper_edge"]) / 2).to_list()
        counts = go.Bar(
            x=middle,
            y=bins["n"].to_list(),
            marker={"color": common.colour},
            showlegend=False,
            hovertemplate="%{y} forecasts<extra>%{fullData.name}</extra>",
            **common.trace,
        )
        figure.add_trace(counts, 2, 1)
    figure.update_xaxes(range=[-0.02, 1.02])
    figure.update_xaxes(title=_FORECAST, row=2, col=1)
    figure.update_yaxes(range=[-0.02, 1.02], title=_OBSERVED, row=1, col=1)
    figure.update_yaxes(title="forecasts", row=2, col=1)
    return figure.update_layout(height=640, margin={"t": 20})


def _curves(result: ScoreResult, curves: pl.DataFrame) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure(_diagonal())
    for name, common in _traces(result):
        curve = curves.filter(pl.col("forecaster") == name)
        figure.add_trace(_area(curve["forecast"], curve["lower"], curve["upper"], common))
        line = go.Scatter(
            x=curve["forecast"].to_list(),
            y=curve["recalibrated"].to_list(),
            mode="lines",
            line={"color": common.colour, "shape": "hvh"},
            customdata=curve["n"].to_list(),
            hovertemplate="forecast %{x:.3f}, %{customdata} of them<br>observed %{y:.3f}<extra>%{fullData.name}</extra>",
            **common.trace,
        )
        figure.add_trace(line)
    figure.update_xaxes(range=[-0.02, 1.02], title=_FORECAST).update_yaxes(range=[-0.02, 1.02], title=_OBSERVED)
    return figure.update_layout(height=540, margin={"t": 20})


_FORECAST, _OBSERVED = "forecast probability of yes", "observed frequency of yes"


@dataclass(frozen=True, slots=True)
class _Common:
    """Settings shared by the traces of one forecaster."""

    colour: str
    trace: dict[str, Any]


def _traces(result: ScoreResult) -> Iterator[tuple[str, _Common]]:
    for index, name in enumerate(result.forecasters):
        shown = True if index < _SHOWN else "legendonly"
        yield name, _Common(COLOURS[index % len(COLOURS)], {"name": escape(name), "legendgroup": str(index), "visible": shown})


def _diagonal() -> go.Scatter:
    import plotly.graph_objects as go

    return go.Scatter(x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dash", "color": GREY}, name="perfect calibration", hoverinfo="skip")


def _area(x: pl.Series, lower: pl.Series, upper: pl.Series, common: _Common) -> go.Scatter:
    """The band between two lines."""
    import plotly.graph_objects as go

    around, ends = [*x, *x.reverse()], [*upper, *lower.reverse()]
    return go.Scatter(
        x=around,
        y=ends,
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=translucent(common.colour, 0.13),
        hoverinfo="skip",
        showlegend=False,
        **common.trace,
    )


def _points(bins: pl.DataFrame, common: _Common) -> go.Scatter:
    import plotly.graph_objects as go

    observed = bins["yes_rate"].to_list()
    ends = list(zip(observed, bins["yes_rate_lower"], bins["yes_rate_upper"], strict=True))
    texts = []
    for row in bins.iter_rows(named=True):
        interval = "" if row["yes_rate_lower"] is None else f" [{row['yes_rate_lower']:.3f}, {row['yes_rate_upper']:.3f}]"
        why = "" if row["reason"] is None else f"<br>no interval: {escape(row['reason'])}"
        texts.append(
            f"forecasts {row['lower_edge']:.3g} to {row['upper_edge']:.3g}: {row['n']} of {row['n_clusters']} clusters<br>"
            f"mean forecast {row['mean_forecast']:.3f}<br>observed {row['yes_rate']:.3f}{interval}<br>gap {row['gap']:+.3f}{why}"
        )
    return go.Scatter(
        x=bins["mean_forecast"].to_list(),
        y=observed,
        mode="markers+lines",
        line={"color": common.colour, "width": 1},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [0 if upper is None else upper - value for value, _, upper in ends],
            "arrayminus": [0 if lower is None else value - lower for value, lower, _ in ends],
            "thickness": 1,
            "width": 3,
        },
        hovertext=texts,
        hovertemplate="%{hovertext}<extra>%{fullData.name}</extra>",
        **common.trace,
    )


def _scores(result: ScoreResult) -> go.Figure:
    """One metric at a time, chosen from a list."""
    import plotly.graph_objects as go

    figure = go.Figure()
    buttons: list[dict[str, Any]] = []
    metrics = [name for name in _CHOICES if result.scores.filter(pl.col("metric") == name)["value"].count()]
    for index, metric in enumerate(metrics):
        rows = result.scores.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
        higher = METRICS[metric].better is Better.HIGHER
        rows = rows.sort("value", descending=not higher, maintain_order=True)
        names = [escape(name) for name in rows["forecaster"]]
        figure.add_trace(_intervals(names, rows["value"], rows["lower"], rows["upper"], visible=index == 0))
        layout = {"xaxis.title.text": f"{words(metric)}; {'higher' if higher else 'lower'} is better", "yaxis.categoryarray": names}
        shown = {"visible": [other == index for other in range(len(metrics))]}
        buttons.append({"label": words(metric), "method": "update", "args": [shown, layout]})
    first = buttons[0]["args"][1]
    figure.update_xaxes(title=first["xaxis.title.text"])
    figure.update_yaxes(categoryorder="array", categoryarray=first["yaxis.categoryarray"], type="category", automargin=True)
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(height=_height(len(result.forecasters)) + 40, margin={"t": 60}, updatemenus=[menu])


def _differences(result: ScoreResult) -> go.Figure:
    import plotly.graph_objects as go

    rows = result.pairs.filter(pl.col("difference").is_not_null()).reverse()
    names = [f"{escape(first)} – {escape(second)}" for first, second in rows.select("forecaster", "other").iter_rows()]
    figure = go.Figure(_intervals(names, rows["difference"], rows["lower"], rows["upper"], visible=True))
    figure.add_vline(0, line={"dash": "dash", "color": GREY})
    figure.update_xaxes(title=f"difference of {LOSSES[result.loss]}").update_yaxes(type="category", automargin=True)
    return figure.update_layout(height=_height(rows.height), margin={"t": 20})


def _intervals(names: list[str], value: pl.Series, lower: pl.Series, upper: pl.Series, *, visible: bool) -> go.Scatter:
    import plotly.graph_objects as go

    ends = list(zip(value, lower, upper, strict=True))
    texts = [f"{one:.4f}" + ("" if low is None else f" [{low:.4f}, {high:.4f}]") for one, low, high in ends]
    return go.Scatter(
        x=value.to_list(),
        y=names,
        mode="markers",
        marker={"size": 8, "color": COLOURS[0]},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [0 if high is None else high - one for one, _, high in ends],
            "arrayminus": [0 if low is None else one - low for one, low, _ in ends],
        },
        hovertext=texts,
        hovertemplate="%{y}: %{hovertext}<extra></extra>",
        showlegend=False,
        visible=visible,
    )


def _height(rows: int) -> int:
    """Pixels of a plot with so many rows."""
    return 110 + 30 * max(rows, 2)
