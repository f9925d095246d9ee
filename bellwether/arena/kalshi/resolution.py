"""How a market on Kalshi ended: what each look at its contracts says, by the venue's own result of each.

Only what is paid out (finalized) is a result; before, it can be disputed and amended. The rules are those of clean/markets, and of a market with named
outcomes all contracts must be paid out. `settlements` of `bellwether.arena.resolution` decides when a result counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.arena.facts import Result
from bellwether.arena.kalshi.markets import OPEN, Listed
from bellwether.arena.market import folded
from bellwether.arena.resolution import UNKNOWN, Observation, Ruling
from bellwether.arena.units import MICROS, price_micros
from bellwether.units import SharePrice

#: What a share of a side pays by the word on it.
_PAID = {"yes": SharePrice(MICROS), "no": SharePrice(0)}
#: The winner where every named outcome has lost: exclusive outcomes need not be all that can happen.
NONE_OF_THEM = "(no outcome)"
#: Words of a contract in the order in which they follow each other.
_ORDER = ("initialized", "inactive", "active", "closed", "determined", "disputed", "amended", "finalized")


def evidence_of(one: Listed, *, fetched_at: datetime) -> dict[str, Any]:
    """A row of evidence from one look at all contracts of a market. results: the venue's word on each contract, "" while it has none."""
    contracts = one.contracts
    words = [row["status"] for row in contracts]
    over, paid = not OPEN & set(words), set(words) == {"finalized"}
    values = [row.get("settlement_value") for row in contracts]
    if not one.named:
        values = [values[0], None if values[0] is None else 1 - values[0]]
    closes = max(row["close_time"] for row in contracts)
    settled = [row.get("settled_at") for row in contracts]
    return {
        "market_id": one.market_id,
        "market_type": "binary" if not one.named else "named" if len(contracts) == 2 else "multi",
        "outcomes": list(one.outcomes),
        "closed": over,
        "resolution_status": min(words, key=_ORDER.index),
        "results": [row.get("result") or "" for row in contracts],
        "outcome_prices": None if None in values else values,
        "end_time": closes,
        "closed_at": closes if over else None,
        "settled_at": max(at for at in settled if at) if paid and None not in settled else None,
        "fetched_at": fetched_at,
    }


def observations(evidence: pl.DataFrame) -> list[Observation]:
    """What each row of evidence says: columns as `evidence_of` makes them."""
    return [_observation(row) for row in evidence.iter_rows(named=True)]


def _observation(row: Mapping[str, Any]) -> Observation:
    paid = row["resolution_status"] == "finalized"
    ruling = ruling_of(row["outcomes"], row["results"], row["outcome_prices"]) if paid else None
    words = ", ".join(sorted(set(row["results"]))) if paid else row["resolution_status"]
    return Observation(row["market_id"], row["fetched_at"], ruling, f"Kalshi: {words}", row["settled_at"] if paid else None)


def ruling_of(outcomes: Sequence[str], results: Sequence[str], values: Sequence[Decimal] | None) -> Ruling:
    """What results say. results: of each named outcome, or the one of a contract with the sides YES and NO. values: dollars that each outcome pays.

    yes and no decide, where the value does not contradict them; a void refunds; a fractional value pays each side its part; else nobody knows.
    """
    if "void" in results:
        return Ruling(Result.CANCELLED)
    paid = [price_micros(value) for value in values or ()]
    pays: list[SharePrice | None] = paid if len(paid) == len(outcomes) else [None] * len(outcomes)
    said = _of_both(results[0]) if len(results) == 1 and len(outcomes) == 2 else list(results)
    parts = [_part(word, value) for word, value in zip(said, pays, strict=True)]
    if None in parts or len({folded(name) for name in outcomes}) < len(outcomes):
        return UNKNOWN
    payouts = tuple((folded(name), part or SharePrice(0)) for name, part in zip(outcomes, parts, strict=True))
    winners = [name for name, part in zip(outcomes, parts, strict=True) if part == MICROS]
    if "scalar" in results or len(winners) > 1:
        return Ruling(Result.SPLIT, payouts)
    return Ruling(Result.WON, payouts, winners[0] if winners else NONE_OF_THEM)


def _of_both(word: str) -> list[str]:
    """The words on YES and on NO of a contract."""
    return [word, {"yes": "no", "no": "yes"}.get(word, word)]


def _part(word: str, value: SharePrice | None) -> SharePrice | None:
    """Micro-dollars that a result pays; None where it does not say so, or its value says otherwise."""
    if word == "scalar":
        return value
    said = _PAID.get(word)
    return said if value in (None, said) else None


def past_looks(found: Iterable[Listed], until: datetime, *, wait: timedelta, grace: timedelta) -> list[dict[str, Any]]:
    """What looks at markets would have found, from their contracts of today: rows as `evidence_of`, each dated when it could have been made.

    A market is looked at when the window for disputes (`wait`) after its payment is over, and, if that does not say how it ended, again after the
    `grace` of an unknown winner; as far as these are past. One that is not paid out, or does not say since when, gives nothing.
    """
    looks = []
    for one in found:
        row = evidence_of(one, fetched_at=until)
        settled: datetime | None = row["settled_at"]
        if settled is None:
            continue
        known = ruling_of(row["outcomes"], row["results"], row["outcome_prices"]).result is not None
        times = [settled + wait] if known else [settled + wait, settled + wait + grace]
        looks += [{**row, "fetched_at": at} for at in times if at <= until]
    return looks
