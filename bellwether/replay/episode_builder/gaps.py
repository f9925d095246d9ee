"""Gaps in which the books of a recording are invalid, and their removal from the rows.

A *place* is the number of a frame in the order of arrival (`times.Times`). A *loss* is a gap given by places, before their times are known;
the column `time` of the rows also contains places. With `by_time`, only the time of the gap's start is known, and its place is one made for
that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bellwether.replay.episode_builder.columns import INVALID

_END = np.iinfo(np.int64).max
_NONE = -1


@dataclass(frozen=True, slots=True)
class BookLoss:
    """Loss of a market's book: market code, places of the frames between which the book is invalid (until -1: to the end), and cause.

    by_time: `since` is known only as a time; frames received before it that have later times count too.
    """

    code: int
    since: int
    until: int
    cause: str
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class BookGap:
    """Gap of a market's book, with the times and the places between which the book is invalid.

    code: of the market. start, end: ns UTC (`_END`: end of the recording). since, until: places of the frames between which the book is
    invalid. by_time: as in `BookLoss`.
    """

    code: int
    start: int
    end: int
    since: int
    until: int
    causes: tuple[str, ...]
    by_time: bool

    @property
    def end_at(self) -> int | None:
        """End of the gap in ns UTC; None if it lasts to the end of the recording."""
        return None if self.end == _END else self.end

    def contains(self, place: int, at: int) -> bool:
        """Return True if the gap contains the frame at `place` and time `at`."""
        return place < self.until and (at >= self.start if self.by_time else place >= self.since)


@dataclass(frozen=True, eq=False)
class BookRows:
    """Rows of all books in chronological order, without those in gaps.

    columns: int64[rows] by name, of `columns.BOOK`. ts: int64[rows], ns UTC. gaps: the removed gaps.
    """

    columns: dict[str, np.ndarray]
    ts: np.ndarray
    gaps: tuple[BookGap, ...]


def market_times(columns: Mapping[str, np.ndarray], times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, ts): the order of the rows by place, and their times, which never decrease within a market, int64[rows], ns UTC.

    times: of each place.
    """
    order = np.argsort(columns["time"], kind="stable")
    ts = times[columns["time"][order]]
    codes = columns["ticker"][order]
    for code in np.unique(codes):
        places = np.flatnonzero(codes == code)
        ts[places] = np.maximum.accumulate(ts[places])
    return order, ts


def cut_gaps(columns: Mapping[str, np.ndarray], times: np.ndarray, lost: Iterable[BookLoss], frames: int) -> BookRows:
    """Remove the rows within gaps, and add a row of kind invalid at each gap's start. times: of each place. frames: number of frames."""
    order, ts = market_times(columns, times)
    rows = {name: values[order] for name, values in columns.items()}
    gaps = _merge_gaps([_resolve_gap(loss, rows, ts, times) for loss in lost])
    valid = np.ones(len(ts), np.bool_)
    for gap in gaps:
        behind = ts > gap.start if gap.by_time else rows["time"] > gap.since
        valid &= ~((rows["ticker"] == gap.code) & behind & (rows["time"] < gap.until))
    marks = {
        "time": [_mark_place(gap, rows, ts, valid) for gap in gaps],
        "ordinal": [frames] * len(gaps),
        "ticker": [gap.code for gap in gaps],
        "kind": [INVALID] * len(gaps),
    }
    starts = np.array([gap.start for gap in gaps], np.int64)
    joined = {
        name: np.concatenate([values[valid], np.array(marks.get(name, [_NONE] * len(gaps)), np.int64)]) for name, values in rows.items()
    }
    joined_ts = np.concatenate([ts[valid], starts])
    # A mark follows the rows of its own frame.
    places = np.lexsort((joined["kind"] == INVALID, joined["time"], joined_ts))
    return BookRows({name: values[places] for name, values in joined.items()}, joined_ts[places], tuple(gaps))


def _mark_place(gap: BookGap, rows: Mapping[str, np.ndarray], ts: np.ndarray, valid: np.ndarray) -> int:
    """Return the place of the row that marks a gap's start: the last valid frame's, with `by_time` the last one of that instant."""
    if not gap.by_time:
        return gap.since
    of_instant = valid & (rows["ticker"] == gap.code) & (ts == gap.start) & (rows["time"] < gap.until)
    return int(rows["time"][of_instant].max(initial=gap.since))


def _resolve_gap(loss: BookLoss, rows: Mapping[str, np.ndarray], ts: np.ndarray, times: np.ndarray) -> BookGap:
    """Convert a loss to a gap with times, whose start is not before the market's preceding rows. times: of each place.

    With `by_time`, the start is not before the market's first row.
    """
    of_market = rows["ticker"] == loss.code
    until = _END if loss.until < 0 else loss.until
    own = ts[of_market] if loss.by_time else ts[of_market & (rows["time"] <= loss.since)]
    start = max([int(times[loss.since]), *own[: 1 if loss.by_time else None][-1:].tolist()])
    end = _END
    if until != _END:
        own = ts[of_market & (rows["time"] == until)]
        end = max(start, int(own[0]) if len(own) else int(times[until]))
    return BookGap(loss.code, start, end, loss.since, until, (loss.cause,), loss.by_time)


def _merge_gaps(gaps: list[BookGap]) -> list[BookGap]:
    """Merge the overlapping gaps of each market into one."""
    merged: list[BookGap] = []
    for gap in sorted(gaps, key=lambda gap: (gap.code, gap.start, gap.since, gap.until)):
        last = merged[-1] if merged else None
        if last is None or last.code != gap.code or (gap.start > last.end if gap.by_time else gap.since > last.until):
            merged.append(gap)
            continue
        causes = tuple(dict.fromkeys((*last.causes, *gap.causes)))
        merged[-1] = replace(last, end=max(last.end, gap.end), until=max(last.until, gap.until), causes=causes)
    return merged
