"""A backtest on a matplotlib axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.pages import GREY
from bellwether.replay.results.metrics import sampled_band, sampled_curve
from bellwether.replay.units import MICROS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bellwether.replay.backtest import Backtest


def plot_equity(backtest: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw the equity of a backtest in dollars over time (UTC) with what the queue model alone can change, and the bankroll as a dotted line.

    Returns the axis, a new one where none is given; call it again with `ax` to compare agents.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    ts, main = sampled_curve(backtest)
    low, high = sampled_band(backtest)
    at = ts.view("datetime64[ns]")
    first = not ax.lines
    (line,) = ax.step(at, main / MICROS, where="post", label=backtest.agent, linewidth=1.2)
    ax.fill_between(at, low / MICROS, high / MICROS, step="post", color=line.get_color(), alpha=0.2, linewidth=0)
    if first:
        ax.axhline(main[0] / MICROS, color=GREY, linewidth=0.8, linestyle=":")
        ax.set(ylabel="equity ($)", title=backtest.episode)
        ax.title.set_parse_math(False)
        ax.tick_params(axis="x", rotation=30)
    for text in ax.legend(frameon=False, fontsize="small").get_texts():
        text.set_parse_math(False)
    return ax
