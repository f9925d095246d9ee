"""Figures of the arena as PNG bytes; frames of its tables in."""

from __future__ import annotations

import polars as pl

from bellwether.replay.results.downsampling import extremes
from bellwether.report.plots_canvas import COLOURS, INK, Sheet, dress, empty, line
from bellwether.report.plots_trading import dates

#: Points of a curve that are drawn; of more, the extremes of each stretch are.
_MOST_POINTS = 400


def family_equity(portfolios: pl.DataFrame, agents: pl.DataFrame, title: str) -> bytes:
    """Total value of every agent over time, agents of a family in one colour, as a PNG.

    portfolios, agents: rows of arena/portfolios and arena/agents. Families beyond the last colour share it.
    """
    sheet = Sheet(7.4, 4.2, title)
    axes = sheet.figure.add_axes((0.105, 0.11, 0.87, 0.68))
    rows = portfolios.join(agents.select("agent_id", "family"), on="agent_id").sort("agent_id", "at")
    if rows.is_empty():
        empty(axes, "no portfolio has changed yet")
    else:
        families = sorted(rows["family"].unique())
        drawn = set()
        for (family, _), curve in rows.group_by("family", "agent_id", maintain_order=True):
            name = str(family)
            values = curve["total"].cast(pl.Float64).to_numpy()
            kept = extremes(values, most=_MOST_POINTS)
            colour = COLOURS[min(families.index(name), len(COLOURS) - 1)]
            label = None if name in drawn else line(name, 24)
            axes.step(curve["at"].to_numpy()[kept], values[kept], where="post", color=colour, linewidth=0.8, label=label)
            drawn.add(name)
        dates(axes, *rows["at"].sort().to_numpy()[[0, -1]], most=7)
    axes.set_ylabel("total ($)", fontsize=8, color=INK)
    dress(axes)
    handles, labels = axes.get_legend_handles_labels()
    sheet.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.09, 0.93), ncols=6)
    return sheet.png()
