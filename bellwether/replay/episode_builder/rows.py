"""Rows of books and trades that grow by appending, and the removal of book rows within gaps.

A *place* is the number of a frame in the order of arrival (`times.Times`). A *loss* is a gap given by places, before their times are known;
the column `place` of the rows also contains places.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bellwether.replay.tape.layout import INVALID

#: Columns of book rows: place of the frame, its ordinal, ticker code, kind (of `tape.layout`: a level, or valid from a snapshot on), side
#: (0 yes, 1 no), price and lots; -1 where a row has none.
BOOK = ("place", "ordinal", "ticker", "kind", "side", "price", "lots")
#: Columns of trades: side is the taker's, price the price of YES.
TRADES = ("place", "ordinal", "ticker", "side", "price", "lots")
_END = np.iinfo(np.int64).max
_NONE = -1


class Rows:
    """Rows of integers, eight bytes per value."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._values = array("q")
        self.add = self._values.extend

    def __len__(self) -> int:
        return len(self._values) // len(self._columns)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values by column, int64[rows] each. No rows can be added while the arrays are in use."""
        table = np.frombuffer(self._values, np.int64).reshape(-1, len(self._columns))
        return {name: table[:, place] for place, name in enumerate(self._columns)}


@dataclass(frozen=True, slots=True)
class BookLoss:
    """Loss of a market's book: market code, places of the frames between which the book is invalid (until -1: to the end), and cause."""

    code: int
    since: int
    until: int
    cause: str


@dataclass(frozen=True, slots=True)
class BookGap:
    """Gap of a market's book, with the times and the places between which the book is invalid.

    code: of the market. start, end: ns UTC (`_END`: end of the recording). since, until: places of the frames between which the book is
    invalid.
    """

    code: int
    start: int
    end: int
    since: int
    until: int
    causes: tuple[str, ...]

    @property
    def end_at(self) -> int | None:
        """End of the gap in ns UTC; None if it lasts to the end of the recording."""
        return None if self.end == _END else self.end


def cut_gaps(
    columns: Mapping[str, np.ndarray], times: np.ndarray, lost: Iterable[BookLoss], frames: int
) -> tuple[dict[str, np.ndarray], tuple[BookGap, ...]]:
    """Sort book rows by time, remove those within gaps, and add a row of kind INVALID at each gap's start.

    Returns the columns, with the times as `ts` (int64[rows], ns UTC, non-decreasing), and the gaps. times: of each place. frames: number of
    frames.
    """
    order = np.argsort(columns["place"], kind="stable")
    rows = {name: values[order] for name, values in columns.items()}
    rows["ts"] = times[rows["place"]]
    for code in np.unique(rows["ticker"]):
        own = np.flatnonzero(rows["ticker"] == code)
        rows["ts"][own] = np.maximum.accumulate(rows["ts"][own])
    gaps = _merge_gaps([_resolve_gap(loss, rows, times) for loss in lost])
    valid = np.ones(len(order), np.bool_)
    for gap in gaps:
        valid &= ~((rows["ticker"] == gap.code) & (rows["place"] > gap.since) & (rows["place"] < gap.until))
    marks = {
        "place": [gap.since for gap in gaps],
        "ordinal": [frames] * len(gaps),
        "ticker": [gap.code for gap in gaps],
        "kind": [INVALID] * len(gaps),
        "ts": [gap.start for gap in gaps],
    }
    joined = {
        name: np.concatenate([values[valid], np.array(marks.get(name, [_NONE] * len(gaps)), np.int64)]) for name, values in rows.items()
    }
    # A mark follows the rows of its own frame.
    places = np.lexsort((joined["kind"] == INVALID, joined["place"], joined["ts"]))
    return {name: values[places] for name, values in joined.items()}, tuple(gaps)


def _resolve_gap(loss: BookLoss, rows: Mapping[str, np.ndarray], times: np.ndarray) -> BookGap:
    """Convert a loss to a gap with times, whose start is not before the market's preceding rows. times: of each place."""
    ts, of_market = rows["ts"], rows["ticker"] == loss.code
    start = max([int(times[loss.since]), *ts[of_market & (rows["place"] <= loss.since)][-1:].tolist()])
    if loss.until < 0:
        return BookGap(loss.code, start, _END, loss.since, _END, (loss.cause,))
    own = ts[of_market & (rows["place"] == loss.until)]
    end = max(start, int(own[0]) if len(own) else int(times[loss.until]))
    return BookGap(loss.code, start, end, loss.since, loss.until, (loss.cause,))


def _merge_gaps(gaps: list[BookGap]) -> list[BookGap]:
    """Merge the overlapping gaps of each market into one."""
    merged: list[BookGap] = []
    for gap in sorted(gaps, key=lambda gap: (gap.code, gap.start, gap.since, gap.until)):
        last = merged[-1] if merged else None
        if last is None or last.code != gap.code or gap.since > last.until:
            merged.append(gap)
            continue
        causes = tuple(dict.fromkeys((*last.causes, *gap.causes)))
        merged[-1] = replace(last, end=max(last.end, gap.end), until=max(last.until, gap.until), causes=causes)
    return merged
