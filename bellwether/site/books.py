"""The recorded books of an episode over time: best bid and ask with the fills of all agents, and depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.site import charts
from bellwether.site.model import Note, Part
from bellwether.site.values import floats, thin
from bellwether.tables.replay import BOOK_INSTANTS, BOOK_LEVELS

#: What is read of replay/books.
COLUMNS = ("ticker", "at", "bid", "ask", "bid_size", "ask_size", "bid_depth", "ask_depth")
#: Markets that are drawn; the table has all.
_CHARTS = 8
#: Fills of a market that are drawn; the pages of the agents have all.
_MARKS = 400
_INSTANT = "%Y-%m-%dT%H:%M:%S%.3fZ"


def parts(books: pl.DataFrame, fills: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Charts of the markets whose prices changed most. books: rows of replay/books of an episode. fills: of all agents, with numbers as floats."""
    if not books.height:
        return [Note("The warehouse has no books of this episode yet.")]
    # A sum of both prices is there only where both sides are.
    moves = (pl.col("bid") + pl.col("ask")).sort_by("at").drop_nulls().diff().ne(0).sum()
    found = books.group_by("ticker").agg(pl.len(), moves=moves).sort(["moves", "len", "ticker"], descending=[True, True, False])
    drawn = found["ticker"].head(_CHARTS).to_list()
    colours = {name: charts.PALETTE[place] for place, name in enumerate(drawn)}
    rows = floats(books.filter(pl.col("ticker").is_in(drawn))).with_columns(
        pl.col("at").dt.strftime(_INSTANT).alias("x"),
        pl.col("at").shift(-1).over("ticker").fill_null(pl.col("at")).dt.strftime(_INSTANT).alias("until"),
    )
    named = rows.rename({"ticker": "name"})
    quotes = named.select("name", "x", "until", "bid", "ask", "bid_size", "ask_size").rows(named=True)
    shown = [{**row, "fill": None, "way": None, "what": None} for row in quotes]
    for ticker in drawn:
        own = [row for row in fills if row["ticker"] == ticker]
        shown += [_fill(own[place]) for place in thin(len(own), _MARKS)]
    said = f"What the recorded books showed at up to {BOOK_INSTANTS} instants, evenly spread over the episode, in prices of YES. There is nothing "
    said += "where a side was empty, the recording has a gap, or the market was closed. Triangles are fills, up where YES was bought."
    if found.height > len(drawn):
        said += (
            f" Drawn are the {len(drawn)} of {found.height} markets whose prices changed most; the table replay.books, under Data, has all."
        )
    first = drawn[:1]
    return [
        Note(said),
        charts.quotes("Best bid and ask, with the fills of all agents", shown, colours, first),
        charts.depths(
            f"Contracts at the best {BOOK_LEVELS} prices of each side: bids above, asks below",
            named.select("name", "x", "until", "bid_depth", "ask_depth").rows(named=True),
            colours,
            first,
        ),
    ]


def _fill(row: Mapping[str, Any]) -> dict[str, Any]:
    """A fill in terms of YES: a NO contract at 0.30 is YES at 0.70."""
    is_yes = row["side"] == "yes"
    at = f"{row['filled_at'].isoformat(timespec='milliseconds')[:23]}Z"
    return {
        **dict.fromkeys(("bid", "ask", "bid_size", "ask_size", "until")),
        "name": row["ticker"],
        "x": at,
        "fill": row["price"] if is_yes else 1 - row["price"],
        "way": "bought" if (row["action"] == "buy") == is_yes else "sold",
        "what": f"{row['agent']}: {row['action']} {row['size']} {row['side']} as {row['role']}",
    }
