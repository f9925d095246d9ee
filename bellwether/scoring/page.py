"""A result as one HTML page that needs nothing else: tables, and plots that answer the mouse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.calibration import METRICS, Better
from bellwether.scoring.overlays import bands_and_curves
from bellwether.scoring.score import ScoreResult
from bellwether.scoring.sheet import MARKET
from bellwether.scoring.show import by_forecaster, group_name, p_cell, reasons, summary
from bellwether.scoring.words import LOSSES, words
from bellwether.whole import whole_file

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Colours of forecasters, told apart by people who see colours differently.
_GREY = "#7a8691"
_COLOURS = ("#1f5a91", "#c2562e", "#3d8361", "#7a5aa6", "#a8862b", "#4c9aa8", "#9c4a6d", "#5f6b76")

#: Forecasters that the diagram shows before the reader chooses.
_SHOWN = 3

_HEADLINE = ("brier", "log_loss", "brier_skill", "skill_vs_market", "roc_auc")
_ERRORS = ("ece", "smece")
_CHOICES = ("brier", "log_loss", "brier_skill", "skill_vs_market", "skill_vs_half", "roc_auc", "accuracy")


@dataclass(frozen=True, slots=True)
class _Cell:
    """Text of a cell, the ends of its interval, and what it says when pointed at."""

    value: str
    ends: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class _Table:
    """Cells under heads; the first `texts` columns are text."""

    heads: tuple[str, ...]
    rows: list[list[_Cell]]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the page."""

    title: str
    table: _Table | None = None
    text: str = ""
    plot: str = ""
    details: list[tuple[str, _Table]] = field(default_factory=list)


def write_page(result: ScoreResult, path: Path) -> None:
    """Write the page whole. It loads nothing from elsewhere."""
    text = page(result)
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def page(result: ScoreResult) -> str:
    """The page as text. Names and labels are escaped; the same result gives the same page."""
    from jinja2 import Environment
    from plotly.offline import get_plotlyjs

    template = Environment(autoescape=True, trim_blocks=True).from_string(
        files("bellwether.scoring").joinpath("page.html").read_text("utf-8")
    )
    counts, columns = summary(result)
    return template.render(
        title=f"Scores of {', '.join(result.sources)}",
        counts=counts,
        columns=columns,
        sections=list(_sections(result)),
        notes=[*reasons(result), *result.notes],
        library=get_plotlyjs(),
    )


def _sections(result: ScoreResult) -> Iterator[_Section]:
    level, (bands, curves) = f"{100 * result.plan.level:.4g} %", bands_and_curves(result)
    yield _Section(
        "Scores",
        _headline(result),
        f"In brackets: {level} intervals; clusters: {result.clusters}. Brier score and log loss: lower is better. Skill is 1 less the ratio of Brier "
        "scores: above 0 is better than the reference. Coverage: share of questions with a forecast. "
        f"Group: forecasters that share a letter do not differ significantly in {LOSSES[result.loss]}.",
    )
    yield _Section(
        "Calibration",
        _calibration(result),
        "By chance: what calibrated forecasts would have on average; p: of a test that the forecasts are calibrated. Reliability and resolution: parts "
        "of the Brier score, without bias; a reliability of 0 is calibrated.",
    )
    yield _Section(
        "Reliability",
        text="Points: observed frequency of yes in each bin, with its interval. Bands: where the points of a calibrated forecaster would lie. "
        "A click on a name shows or hides a forecaster, a double click shows it alone.",
        plot=_div(_reliability(result, bands), "reliability"),
    )
    yield _Section(
        "Reliability without bins",
        text="The frequency of yes that isotonic regression gives each forecast (CORP), and where the curve of a calibrated forecaster would lie.",
        plot=_div(_curves(result, curves), "curves"),
    )
    yield _Section("Metrics with intervals", plot=_div(_scores(result), "scores"))
    if result.pairs["difference"].count():
        yield _Section(
            "Paired differences",
            _pairs(result),
            f"Difference of {LOSSES[result.loss]} on common questions, first less second: below 0 the first is better. p Holm: corrected for the number of pairs.",
            _div(_differences(result), "differences"),
        )
    for (by,), groups in result.groups.partition_by("by", as_dict=True, maintain_order=True).items():
        yield _Section(f"By {by}", _by(groups, str(by)))
    details = [(name, _metrics(metrics)) for name, metrics in by_forecaster(result.scores)]
    yield _Section("All metrics", details=details)


def _interval(row: dict[str, Any], digits: int = 3, sign: str = "") -> _Cell:
    if row["value"] is None:
        return _Cell("–", title=row["reason"] or "")
    ends = "" if row["lower"] is None else f"[{row['lower']:{sign}.{digits}f}, {row['upper']:{sign}.{digits}f}]"
    return _Cell(f"{row['value']:{sign}.{digits}f}", ends, row["reason"] or "")


def _headline(result: ScoreResult) -> _Table:
    letters = dict(result.ranking.select("forecaster", "group").iter_rows())
    rows = []
    for name, metrics in by_forecaster(result.scores):
        scores = [_score(name, metrics, metric) for metric in _HEADLINE]
        counts = [_Cell(str(metrics["brier"][column])) for column in ("n", "n_clusters")]
        share = metrics["coverage"]["value"]
        rows.append([_Cell(name), *counts, _Cell("–" if share is None else f"{share:.0%}"), *scores, _Cell(letters.get(name) or "")])
    return _Table(("forecaster", "n", "clusters", "coverage", *(words(metric) for metric in _HEADLINE), "group"), rows)


def _score(name: str, metrics: dict[str, dict[str, Any]], metric: str) -> _Cell:
    if name == MARKET and metric == "skill_vs_market":
        return _Cell("–")
    return _interval(metrics[metric], 3, "+" if "skill" in metric else "")


def _calibration(result: ScoreResult) -> _Table:
    rows = []
    for name, metrics in by_forecaster(result.scores):
        cells = [_Cell(name)]
        for metric in _ERRORS:
            one = metrics[metric]
            cells += [_Cell("–" if one[column] is None else f"{one[column]:.3f}") for column in ("value", "expected")]
            cells.append(_Cell(p_cell(one["p_calibrated"])))
        cells += [_interval(metrics[metric], 4) for metric in ("murphy_reliability_debiased", "murphy_resolution_debiased")]
        rows.append(cells)
    errors = (head for metric in _ERRORS for head in (words(metric), "by chance", "p"))
    return _Table(("forecaster", *errors, "reliability", "resolution"), rows)


def _pairs(result: ScoreResult) -> _Table:
    rows = []
    for row in result.pairs.iter_rows(named=True):
        difference = _interval({**row, "value": row["difference"]}, 4, "+")
        tests = [_Cell(p_cell(row[name])) for name in ("p", "p_holm", "p_mcnemar")]
        rows.append([_Cell(row["forecaster"]), _Cell(row["other"]), _Cell(str(row["n"])), difference, *tests])
    return _Table(("first", "second", "n", "difference", "p", "p Holm", "p McNemar"), rows, texts=2)


def _by(groups: pl.DataFrame, by: str) -> _Table:
    rows = []
    for (group,), part in groups.partition_by("group", as_dict=True, maintain_order=True).items():
        for name, metrics in by_forecaster(part):
            brier = metrics["brier"]
            scores = [
                _interval(metrics[metric], 3, "+" if "skill" in metric else "") for metric in ("brier", "brier_skill", "skill_vs_market")
            ]
            counts = [_Cell(str(brier["n"])), _Cell(str(brier["n_clusters"]))]
            rows.append([_Cell(group_name(group)), _Cell(name), *counts, *scores])
    heads = (by, "forecaster", "n", "clusters", *(words(metric) for metric in ("brier", "brier_skill", "skill_vs_market")))
    return _Table(heads, rows, texts=2)


def _metrics(metrics: dict[str, dict[str, Any]]) -> _Table:
    rows = []
    for name, row in metrics.items():
        chance = "" if row["expected"] is None else f"{row['expected']:.4f}"
        p = "" if row["p_calibrated"] is None else p_cell(row["p_calibrated"])
        about = METRICS[name].meaning if name in METRICS else ""
        rows.append(
            [
                _Cell(name, title=about),
                _interval({**row, "reason": None}, 4),
                _Cell(chance),
                _Cell(p),
                _Cell(row["method"] or row["reason"] or ""),
            ]
        )
    return _Table(("metric", "value", "by chance", "p", "interval"), rows)


def _div(figure: go.Figure, name: str) -> str:
    figure.update_layout(template="plotly_white", font={"family": "system-ui, sans-serif", "size": 12}, hovermode="closest")
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False, "responsive": True}))


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
    """What the traces of one forecaster share."""

    colour: str
    trace: dict[str, Any]


def _traces(result: ScoreResult) -> Iterator[tuple[str, _Common]]:
    for index, name in enumerate(result.forecasters):
        shown = True if index < _SHOWN else "legendonly"
        yield name, _Common(_COLOURS[index % len(_COLOURS)], {"name": escape(name), "legendgroup": str(index), "visible": shown})


def _diagonal() -> go.Scatter:
    import plotly.graph_objects as go

    return go.Scatter(x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dash", "color": _GREY}, name="perfect calibration", hoverinfo="skip")


def _area(x: pl.Series, lower: pl.Series, upper: pl.Series, common: _Common) -> go.Scatter:
    """The band between two lines."""
    import plotly.graph_objects as go

    around, ends = [*x, *x.reverse()], [*upper, *lower.reverse()]
    red, green, blue = (int(common.colour[index : index + 2], 16) for index in (1, 3, 5))
    return go.Scatter(
        x=around,
        y=ends,
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=f"rgba({red},{green},{blue},0.13)",
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
    figure.update_yaxes(categoryorder="array", categoryarray=first["yaxis.categoryarray"], automargin=True)
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(height=_height(len(result.forecasters)) + 40, margin={"t": 60}, updatemenus=[menu])


def _differences(result: ScoreResult) -> go.Figure:
    import plotly.graph_objects as go

    rows = result.pairs.filter(pl.col("difference").is_not_null()).reverse()
    names = [f"{escape(first)} – {escape(second)}" for first, second in rows.select("forecaster", "other").iter_rows()]
    figure = go.Figure(_intervals(names, rows["difference"], rows["lower"], rows["upper"], visible=True))
    figure.add_vline(0, line={"dash": "dash", "color": _GREY})
    figure.update_xaxes(title=f"difference of {LOSSES[result.loss]}").update_yaxes(automargin=True)
    return figure.update_layout(height=_height(rows.height), margin={"t": 20})


def _intervals(names: list[str], value: pl.Series, lower: pl.Series, upper: pl.Series, *, visible: bool) -> go.Scatter:
    import plotly.graph_objects as go

    ends = list(zip(value, lower, upper, strict=True))
    texts = [f"{one:.4f}" + ("" if low is None else f" [{low:.4f}, {high:.4f}]") for one, low, high in ends]
    return go.Scatter(
        x=value.to_list(),
        y=names,
        mode="markers",
        marker={"size": 8, "color": _COLOURS[0]},
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
