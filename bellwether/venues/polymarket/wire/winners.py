"""Parsing of the CLOB's markets into rows of raw/polymarket_winners, one per outcome."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_WINNERS
from bellwether.venues.polymarket.wire.rules import CONDITION_ID, PRICE, PRICE_PLACES, format_id, prepare_records, to_plain_decimal
from bellwether.venues.wire.columns import RejectReasons, WireColumns, to_records
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, repeat_value
from bellwether.venues.wire.shapes import ObjectShape

MARKET = ObjectShape(tickers=("condition_id",), flags=("is_50_50_outcome", "closed", "accepting_orders"))
TOKEN = ObjectShape(tickers=(), texts=("token_id", "outcome"), decimals={"price": PRICE}, flags=("winner",))


def parse_winners(objects: Sequence[Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse the CLOB's markets of one page into rows of raw/polymarket_winners in partition `day`, one per outcome.

    `ordinals` of the result are those of the markets, once per row. A market with an invalid outcome, or without outcomes, is a reject.
    """
    problems = RejectReasons()
    columns = WireColumns(to_records(objects, "condition_id", problems), problems)
    markets = pl.DataFrame(columns.typed(MARKET))
    columns.note_where(~markets["condition_id"].str.contains(CONDITION_ID), "condition_id", "not 0x and 62 or 64 hexadecimal digits")
    lists = columns.values("tokens")
    fits = [type(tokens) is list and bool(tokens) and all(type(token) is dict for token in tokens) for tokens in lists]
    columns.note_where(~pl.Series(fits, dtype=pl.Boolean()), "tokens", "not a list of outcomes")
    owners = [index for index, tokens in enumerate(lists) if fits[index] for _ in tokens]
    positions = [position for index, tokens in enumerate(lists) if fits[index] for position in range(len(tokens))]
    tokens = _tokens([token for index, tokens in enumerate(lists) if fits[index] for token in tokens], owners, columns)
    valid = [place for place, owner in enumerate(owners) if owner not in problems]
    frame = (
        markets[owners]
        .hstack(tokens)
        .with_columns(day=repeat_value(day, pl.Date(), len(owners)), position=pl.Series(positions, dtype=pl.Int32()))
    )
    rejects = Quarantine(POLYMARKET_WINNERS, "condition_id", day, origin)
    whole = rejects.sift(frame[valid], objects, RejectReasons())
    return ParsedRecords(whole.rows, [owners[place] for place in valid], rejects.rows(objects, problems, {}))


def _tokens(tokens: Sequence[Any], owners: Sequence[int], markets: WireColumns) -> pl.DataFrame:
    """Parse the outcomes (`tokens`) of all markets. owners: for each outcome, the position of its market, for which its problems are
    noted.
    """
    problems = RejectReasons()
    records = prepare_records(tokens, token_id=format_id, price=partial(to_plain_decimal, places=PRICE_PLACES))
    frame = pl.DataFrame(WireColumns(records, problems, "tokens.").typed(TOKEN))
    for place, problem in problems.items():
        markets.problems.note(owners[place], problem.field, problem.value, problem.reason)
    return frame
