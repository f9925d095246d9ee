"""Figures of backtests: equity with its band and drawdown, P&L over episodes, and markouts, as PNG bytes; frames of the replay's tables in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bellwether.replay.results.downsampling import extremes
from bellwether.report.plots_canvas import (
    BAND,
    BLUE,
    COLOURS,
    GREY,
    INK,
    MOST_LINES,
    MOST_PANELS,
    ORANGE,
    PALE,
    RULE,
    Panels,
    Sheet,
    dress,
    empty,
    line,
    short,
)
from bellwether.tables.replay import HORIZONS_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points of a curve that are drawn; of more, the extremes of each stretch are.
_MOST_POINTS = 1_500

#: Seconds between ticks of time, up to a year.
_STEPS = (1, 5, 15, 30, 60, 300, 900, 1800, *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 120, 240, 720, 2160, 8760)))

#: Agents that a panel tells apart by colour.
_MOST_AGENTS = len(COLOURS)

#: Dots of one agent; of more episodes, every so many in the order of their P&L.
_MOST_DOTS = 400


def equity_curve(equity: pl.DataFrame, title: str) -> bytes:
    """Equity of one backtest with what the queue model alone can change, and its drawdown below, as a PNG below 100 kB.

    `equity` holds rows of replay/equity of one agent in one episode. The dotted line is the first sample, the pale line marks positions at the
    middle of the book.
    """
    sheet = Sheet(7.4, 4.6, title)
    upper = sheet.figure.add_axes((0.105, 0.35, 0.87, 0.48))
    lower = sheet.figure.add_axes((0.105, 0.10, 0.87, 0.19))
    rows = equity.sort("at")
    if rows.is_empty():
        empty(upper, "no sample")
    else:
        _equity(upper, rows)
        _drawdown(lower, rows)
    upper.tick_params(labelbottom=False)
    upper.set_ylabel("equity ($)", fontsize=8, color=INK)
    lower.set_ylabel("drawdown (%)", fontsize=8, color=INK)
    for axes in (upper, lower):
        if rows.height:
            dates(axes, *rows["at"].to_numpy()[[0, -1]], most=7)
        dress(axes)
    handles, labels = upper.get_legend_handles_labels()
    sheet.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.09, 0.93), ncols=4)
    return sheet.png()


def equity_by_episode(equity: pl.DataFrame, title: str, *, agents: Sequence[str] = ()) -> bytes:
    """P&L over time of all agents, one panel per episode, as a PNG below 100 kB.

    `equity` holds rows of replay/equity. Agents are coloured in the order of `agents`, by name when left out; those beyond the eighth are left out.
    """
    names = list(agents or equity["agent"].unique().sort())
    colours = dict(zip(names[:_MOST_AGENTS], COLOURS, strict=False))
    episodes = equity["episode"].unique().sort().to_list()
    sheet = Panels(episodes, title, alone=(7.0, 4.4), each=(3.1, 2.3))
    parts = {key: part.sort("at") for key, part in equity.partition_by("episode", "agent", as_dict=True).items()}
    for name, cell, left, _ in sheet.cells(hspace=0.55, wspace=0.3):
        axes = sheet.figure.add_subplot(cell)
        axes.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
        for agent, colour in colours.items():
            part = parts.get((name, agent))
            if part is not None:
                _pnl(axes, part, colour)
        if not episodes:
            empty(axes, "no backtest")
        sheet.head(axes, tail(name), multiplied=True)
        if left:
            axes.set_ylabel("P&L ($)", fontsize=8, color=INK)
        own = [part for (episode, _), part in parts.items() if episode == name]
        if own:
            at = np.concatenate([part["at"].to_numpy()[[0, -1]] for part in own])
            dates(axes, at.min(), at.max(), most=7 if sheet.alone else 4)
        dress(axes)
    handles = [_mark(sheet, colour) for colour in colours.values()]
    sheet.legend(handles, list(colours), loc="lower center", ncols=min(max(len(colours), 1), 4))
    left_out = len(episodes) - MOST_PANELS
    sheet.note(left_out if left_out > 0 else len(names) - _MOST_AGENTS)
    return sheet.png()


def pnl_distribution(backtests: pl.DataFrame, summary: pl.DataFrame, title: str) -> bytes:
    """P&L of every episode as a dot, one line per agent and rule set, the best mean first, as a PNG below 100 kB.

    `backtests` and `summary` hold rows of replay/backtests and replay/summary. The bar is the 95 % bootstrap interval of the mean over episodes,
    where there is one, the tick the median. Episodes that left a position unsettled have no dot.
    """
    backtests = backtests.filter(~pl.col("unsettled"))
    ordered = summary.drop_nulls("pnl_mean").sort("pnl_mean", "agent", "rules", descending=[True, False, False])
    shown = ordered.head(MOST_LINES)
    height = 1.35 + 0.36 * max(shown.height, 1)
    sheet = Sheet(8.0, height, title)
    axes = sheet.figure.add_axes((0.27, 0.82 / height, 0.64, 1 - 1.3 / height))
    axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
    several = ordered["rules"].n_unique() > 1
    for position, row in enumerate(shown.iter_rows(named=True)):
        own = backtests.filter((pl.col("agent") == row["agent"]) & (pl.col("rules") == row["rules"]))["pnl"].cast(pl.Float64).sort()
        _pnl_line(axes, position, own.to_numpy(), row)
        label = f"{row['agent']} ({row['rules']})" if several else row["agent"]
        where: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
        axes.text(-0.02, position, line(label, 34), ha="right", color=INK, parse_math=False, **where)
        axes.text(1.02, position, f"n = {short(row['episodes'])}", ha="left", color=GREY, **where)
    if shown.is_empty():
        empty(axes, "no backtest")
    _pnl_axis(axes, shown.height)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    sheet.legend(list(once.values()), list(once), loc="lower center", bbox_to_anchor=(0.59, 0.02 / height), ncols=4)
    sheet.note(ordered.height - MOST_LINES)
    return sheet.png()


def markout_curve(fills: pl.DataFrame, title: str, *, names: Sequence[str] = ()) -> bytes:
    """Mean markout per contract by the time after the fill, as maker and as taker, one panel per agent, as a PNG below 100 kB.

    `fills` holds rows of replay/fills. Means are weighted by contracts; the bars are 95 % bootstrap intervals over episodes, from three episodes
    on. Below zero the market moved against the fills. `names` are the agents in the order of their panels, all by name when left out.
    """
    from bellwether.report.plots_frames import weighted_means

    shown = list(names or fills["agent"].unique().sort())
    sheet = Panels(shown, title, alone=(6.4, 4.4), each=(3.1, 2.5))
    for name, cell, left, bottom in sheet.cells(hspace=0.5, wspace=0.3):
        axes = sheet.figure.add_subplot(cell)
        own = fills.filter(pl.col("agent") == name)
        axes.axhline(0, color=GREY, linewidth=0.9, linestyle=":")
        for role, colour, offset in (("maker", BLUE, 0.94), ("taker", ORANGE, 1.06)):
            part = own.filter(pl.col("role") == role)
            points = [weighted_means(part, "episode", f"markout_{seconds}s", "size") for seconds in HORIZONS_S]
            _markout_line(axes, role, colour, offset, points)
        if own.is_empty():
            empty(axes, "no fill")
        _horizons(axes)
        sheet.head(axes, name, multiplied=True)
        if left:
            axes.set_ylabel("cents per contract", fontsize=8, color=INK)
        if bottom:
            axes.set_xlabel("time after the fill", fontsize=8, color=INK)
        dress(axes)
    handles = [_mark(sheet, colour, marker="o") for colour in (BLUE, ORANGE)]
    sheet.legend(handles, ["as maker", "as taker"], loc="lower center", ncols=2)
    sheet.note(len(shown) - MOST_PANELS)
    return sheet.png()


def _equity(axes: Axes, rows: pl.DataFrame) -> None:
    values = {name: _floats(rows, name) for name in ("equity", "equity_mid", "equity_pessimistic", "equity_optimistic")}
    kept = extremes(values["equity"], values["equity_pessimistic"], values["equity_optimistic"], values["equity_mid"], most=_MOST_POINTS)
    at = rows["at"].to_numpy()[kept]
    models = np.vstack([values[name][kept] for name in ("equity", "equity_pessimistic", "equity_optimistic")])
    axes.axhline(values["equity"][0], color=GREY, linewidth=0.9, linestyle=":")
    axes.fill_between(
        at, models.min(axis=0), models.max(axis=0), color=BAND, linewidth=0.6, edgecolor=PALE, zorder=1, label="range of queue models"
    )
    axes.plot(at, values["equity_mid"][kept], color=ORANGE, linewidth=0.8, alpha=0.8, zorder=2, label="marked at the middle")
    axes.plot(at, values["equity"][kept], color=BLUE, linewidth=1.3, zorder=3, label="equity")


def _drawdown(axes: Axes, rows: pl.DataFrame) -> None:
    from bellwether.replay.results.curve import drawdowns

    fall = 100 * drawdowns(_floats(rows, "equity"))
    kept = extremes(fall, most=_MOST_POINTS)
    axes.fill_between(rows["at"].to_numpy()[kept], -fall[kept], 0, color=ORANGE, alpha=0.45, linewidth=0)
    axes.set_ylim(-max(float(np.nanmax(fall, initial=0.0)) * 1.15, 0.5), 0)


def _pnl(axes: Axes, rows: pl.DataFrame, colour: str) -> None:
    values = _floats(rows, "equity")
    kept = extremes(values, most=_MOST_POINTS)
    axes.plot(rows["at"].to_numpy()[kept], values[kept] - values[0], color=colour, linewidth=1.0)


def _pnl_line(axes: Axes, position: int, values: np.ndarray, row: dict[str, Any]) -> None:
    dots = values[np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_DOTS)).round().astype(int))] if len(values) else values
    # golden-ratio steps spread neighbours apart, the same each time
    spread = ((np.arange(len(dots)) * 0.618034) % 1 - 0.5) * min(0.5, 0.02 * len(dots))
    axes.plot(dots, position + spread, "o", color=BLUE, alpha=0.35, markersize=3, markeredgewidth=0, zorder=2, label="an episode")
    lower, upper = row["pnl_mean_lower"], row["pnl_mean_upper"]
    if lower is not None and upper is not None:
        axes.plot(
            (lower, upper), (position, position), color=INK, linewidth=2.2, solid_capstyle="butt", zorder=3, label="its 95 % interval"
        )
    axes.plot((row["pnl_mean"],), (position,), "D", color=INK, markersize=4.5, zorder=4, label="mean")
    axes.plot((row["pnl_median"],), (position,), "|", color=ORANGE, markersize=12, markeredgewidth=1.8, zorder=4, label="median")


def _pnl_axis(axes: Axes, count: int) -> None:
    axes.set_ylim(max(count, 1) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel("P&L of an episode ($)", fontsize=8, color=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    dress(axes)


def _markout_line(axes: Axes, role: str, colour: str, offset: float, points: list[tuple[float | None, float | None, float | None]]) -> None:
    known = [(seconds * offset, *point) for seconds, point in zip(HORIZONS_S, points, strict=True) if point[0] is not None]
    if not known:
        return
    at, value, lower, upper = (np.array([np.nan if one is None else one for one in column], float) for column in zip(*known, strict=True))
    axes.plot(at, 100 * value, "o-", color=colour, linewidth=1.2, markersize=4, label=role, zorder=3)
    axes.vlines(at, 100 * lower, 100 * upper, color=colour, linewidth=1.1, zorder=2)


def _horizons(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xlim(HORIZONS_S[0] * 0.7, HORIZONS_S[-1] * 1.4)
    axes.set_xticks(HORIZONS_S, [f"{seconds} s" if seconds < 60 else f"{seconds // 60} min" for seconds in HORIZONS_S])
    axes.minorticks_off()


def _mark(sheet: Sheet, colour: str, marker: str = "") -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linewidth=1.3, marker=marker, markersize=4)


def dates(axes: Axes, first: Any, last: Any, *, most: int) -> None:
    """Make the horizontal axis one of time from `first` to `last` (datetime64), with at most `most` ticks at round times UTC."""
    from matplotlib.dates import ConciseDateFormatter, date2num
    from matplotlib.ticker import FixedLocator

    start, stop = np.array([first, last]).astype("datetime64[s]").astype(np.int64).tolist()
    step = next((step for step in _STEPS if (stop - start) // step < most), _STEPS[-1])
    ticks = np.arange(-(-start // step) * step, stop + 1, step).astype("datetime64[s]")
    axes.xaxis_date(tz=UTC)
    locator = FixedLocator(date2num(ticks))
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.xaxis.get_offset_text().set(fontsize=7, color=GREY)
    if first != last:
        axes.set_xlim(*date2num(np.array([first, last])))


def tail(name: str, most: int = 32) -> str:
    """The end of a long name of an episode or a market: names of one event begin alike."""
    return name if len(name) <= most else "…" + name[1 - most :]


def _floats(rows: pl.DataFrame, name: str) -> np.ndarray:
    return rows[name].cast(pl.Float64).to_numpy()
