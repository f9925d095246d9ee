"""Gaps in which the books of a recording are invalid, removed from their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from bellwether.replay.episode_builder.columns import INVALID

_END = np.iinfo(np.int64).max
_NONE = -1


@dataclass(frozen=True, slots=True)
class BookLoss:
    """Loss of a book: market code, places of the frames between which it is invalid (until -1: to the end), and the cause.

    by_time: `since` is known only as a time; frames received before it that have later times count too.
    """

    code: int
    since: int
    until: int
    cause: str
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """Gap of a market: code; start and end in ns UTC (`_END`: the end of the recording), places of the frames between them, and causes."""

    code: int
    start: int
    end: int
    since: int
    until: int
    causes: tuple[str, ...]
    by_time: bool

    @property
    def end_at(self) -> int | None:
        """End in ns UTC; None: to the end of the recording."""
        return None if self.end == _END else self.end

    def holds(self, place: int, at: int) -> bool:
        """Return whether a frame lies within the gap."""
        return place < self.until and (at >= self.start if self.by_time else place >= self.since)


@dataclass(frozen=True, eq=False)
class BookRows:
    """Book rows in chronological order, and the gaps removed from them. columns: int64[rows] by name, of `columns.BOOK`. ts: int64[rows],
    ns UTC.
    """

    columns: dict[str, np.ndarray]
    ts: np.ndarray
    stretches: tuple[Stretch, ...]


def market_times(columns: Mapping[str, np.ndarray], times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, ts): rows by frame, and their times, int64[rows] ns UTC, which never decrease within a market."""
    order = np.argsort(columns["time"], kind="stable")
    ts = times[columns["time"][order]]
    codes = columns["ticker"][order]
    for code in np.unique(codes):
        places = np.flatnonzero(codes == code)
        ts[places] = np.maximum.accumulate(ts[places])
    return order, ts


def cut_gaps(columns: Mapping[str, np.ndarray], times: np.ndarray, lost: Iterable[BookLoss], frames: int) -> BookRows:
    """Remove the rows within gaps; a row of kind invalid begins each gap. times: of the places. frames: number of frames."""
    order, ts = market_times(columns, times)
    rows = {name: values[order] for name, values in columns.items()}
    stretches = _merge_stretches([_resolve_stretch(one, rows, ts, times) for one in lost])
    kept = np.ones(len(ts), np.bool_)
    for stretch in stretches:
        behind = ts > stretch.start if stretch.by_time else rows["time"] > stretch.since
        kept &= ~((rows["ticker"] == stretch.code) & behind & (rows["time"] < stretch.until))
    marks = {
        "time": [_mark_place(stretch, rows, ts, kept) for stretch in stretches],
        "ordinal": [frames] * len(stretches),
        "ticker": [stretch.code for stretch in stretches],
        "kind": [INVALID] * len(stretches),
    }
    starts = np.array([stretch.start for stretch in stretches], np.int64)
    joined = {
        name: np.concatenate([values[kept], np.array(marks.get(name, [_NONE] * len(stretches)), np.int64)]) for name, values in rows.items()
    }
    joined_ts = np.concatenate([ts[kept], starts])
    # A mark follows the rows of its own frame.
    places = np.lexsort((joined["kind"] == INVALID, joined["time"], joined_ts))
    return BookRows({name: values[places] for name, values in joined.items()}, joined_ts[places], tuple(stretches))


def _mark_place(stretch: Stretch, rows: Mapping[str, np.ndarray], ts: np.ndarray, kept: np.ndarray) -> int:
    """Return the place of the frame before a gap's mark; if only its time is known, the last frame of that instant."""
    if not stretch.by_time:
        return stretch.since
    of_instant = kept & (rows["ticker"] == stretch.code) & (ts == stretch.start) & (rows["time"] < stretch.until)
    return int(rows["time"][of_instant].max(initial=stretch.since))


def _resolve_stretch(lost: BookLoss, rows: Mapping[str, np.ndarray], ts: np.ndarray, times: np.ndarray) -> Stretch:
    of_market = rows["ticker"] == lost.code
    until = _END if lost.until < 0 else lost.until
    own = ts[of_market] if lost.by_time else ts[of_market & (rows["time"] <= lost.since)]
    # Not before the preceding rows; if only its time is known, not before the first row.
    start = max([int(times[lost.since]), *own[: 1 if lost.by_time else None][-1:].tolist()])
    end = _END
    if until != _END:
        shown = ts[of_market & (rows["time"] == until)]
        end = max(start, int(shown[0]) if len(shown) else int(times[until]))
    return Stretch(lost.code, start, end, lost.since, until, (lost.cause,), lost.by_time)


def _merge_stretches(found: list[Stretch]) -> list[Stretch]:
    """Merge overlapping gaps of a market."""
    merged: list[Stretch] = []
    for one in sorted(found, key=lambda stretch: (stretch.code, stretch.start, stretch.since, stretch.until)):
        last = merged[-1] if merged else None
        if last is None or last.code != one.code or (one.start > last.end if one.by_time else one.since > last.until):
            merged.append(one)
            continue
        causes = tuple(dict.fromkeys((*last.causes, *one.causes)))
        merged[-1] = Stretch(last.code, last.start, max(last.end, one.end), last.since, max(last.until, one.until), causes, last.by_time)
    return merged
