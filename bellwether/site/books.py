"""The recorded books of an episode over time: best bid and ask with the fills of all agents, and depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.figures.canvas import palette
from bellwether.pages import charts
from bellwether.pages.model import Note, Part
from bellwether.replay.results.tear_sheet import book_rows, price_chart
from bellwether.tables.replay import BOOK_INSTANTS, BOOK_LEVELS

#: What is read of replay/books.
COLUMNS = ("ticker", "at", "bid", "ask", "bid_size", "ask_size", "bid_depth", "ask_depth")
#: Markets that are drawn; the table has all.
_CHARTS = 8


def parts(books: pl.DataFrame, fills: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Charts of the markets whose prices changed most. books: rows of replay/books of an episode. fills: of all agents, with numbers as floats."""
    if not books.height:
        return [Note("The warehouse has no books of this episode yet.")]
    # A sum of both prices is there only where both sides are.
    moves = (pl.col("bid") + pl.col("ask")).sort_by("at").drop_nulls().diff().ne(0).sum()
    found = books.group_by("ticker").agg(pl.len(), moves=moves).sort(["moves", "len", "ticker"], descending=[True, True, False])
    shown = found["ticker"].head(_CHARTS).to_list()
    rows = book_rows(books.filter(pl.col("ticker").is_in(shown)), BOOK_INSTANTS)
    said = f"What the recorded books showed at up to {BOOK_INSTANTS} instants, evenly spread over the episode, in prices of YES. There is nothing "
    said += "where a side was empty, the recording has a gap, or the market was closed. Triangles are fills, up where YES was bought."
    if found.height > len(shown):
        said += (
            f" Drawn are the {len(shown)} of {found.height} markets whose prices changed most; the table replay.books, under Data, has all."
        )
    depths = [{name: row[name] for name in ("name", "x", "until", "bid_depth", "ask_depth")} for name in shown for row in rows[name]]
    title = f"Contracts at the best {BOOK_LEVELS} prices of each side: bids above, asks below"
    colours = dict(palette(shown))
    return [
        Note(said),
        price_chart("Best bid and ask, with the fills of all agents", shown, rows, fills),
        charts.depths(title, depths, colours, shown[:1]),
    ]
