"""Tables of the arena as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = ("", "family", "stated", "size", "price", "n", "return", "won", "bets", "inv.", "left", "cost")
_NOTE = (
    "stated, size, price: mean Brier score of the probabilities that were stated, that the bets' sizes imply, and of the prices paid, over n bets with a "
    "winner; lower is better. inv.: answers that could not be used. left: decisions without an answer."
)


def is_preview(rows: pl.DataFrame) -> bool:
    """Whether nothing has been traded on a leaderboard yet: no bet, no turnover and no profit or loss."""
    return rows.select((pl.col("profit", "bets", "turnover") == 0).all()).row(0) == (True, True, True)


def board(rows: pl.DataFrame) -> Iterator[RenderableType]:
    """The leaderboard: a table per methodology, live and reconstructed cohorts apart; 80 characters wide."""
    for key, part in rows.group_by("methodology", "reconstructed", maintain_order=True):
        cohorts = part["cohorts"].max()
        kind = "reconstructed" if key[1] else "live"
        grid = Grid(
            title=Text(
                f"Arena, {key[0]!s}: {cohorts!s} {kind} cohort{'' if cohorts == 1 else 's'}{', nothing traded yet' if is_preview(part) else ''}"
            ),
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 0),
            show_edge=False,
        )
        for name in _COLUMNS:
            grid.add_column(name, justify="left" if name == "family" else "right", no_wrap=True)
        for row in part.iter_rows(named=True):
            grid.add_row(*map(Text, _cells(row)))
        yield grid
    yield Text(_NOTE if rows.height else "No cohort has started. `bellwether arena run` starts one.", style="dim")


def _cells(row: dict[str, object]) -> list[str]:
    return [
        "–" if row["rank"] is None else str(row["rank"]),
        str(row["family"]),
        *(_score(row[name]) for name in ("brier_stated", "brier_size", "brier_price")),
        str(row["scored"]),
        f"{100 * float(str(row['return'])):+.1f}%",
        "–" if row["win_rate"] is None else f"{100 * float(str(row['win_rate'])):.0f}%",
        str(row["bets"]),
        str(row["invalid"]),
        str(row["unfinished"]),
        "?" if row["cost"] is None else f"${float(str(row['cost'])):.2f}",
    ]


def _score(value: object) -> str:
    return "–" if value is None else f"{float(str(value)):.3f}"
