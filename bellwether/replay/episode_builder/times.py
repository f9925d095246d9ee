"""Exchange times of events in a recording, where frames contain them."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

import numpy as np

from bellwether.errors import SchemaError

_UNKNOWN = -1
_LATEST = np.iinfo(np.int64).max
#: Clocks that differ by more than this are not of one world: a recording of a sandbox whose time flies.
_ONE_CLOCK = 60_000_000_000
#: Columns of what is kept of each place: what the exchange said, its stream's clock then and that of all, receipt, stream, ordinal of the frame.
_SAID, _CLOCK, _LATEST_CLOCK, _RECEIVED, _STREAM, _ORDINAL = range(6)
_COLUMNS = 6
#: The stream of frames that belong to no subscription of books, such as trades: its clock also follows those of the books.
COMMON = 0


class Times:
    """The times of frames in order of arrival. `hear` gives each a place; `resolve` turns places into nanoseconds since 1970, UTC.

    A frame is never older than the one before it on its stream: its time is the running maximum of what the exchange has said there. One that the
    exchange has not dated gets its time of receipt, held between the dated ones of its stream before and behind it; a receiver's clock that is seen to
    be behind the exchange's is put right by as much. Without a time of receipt it is as old as the one before it, and at the beginning as the first
    that is dated. Where the exchange dates nothing, the times of receipt are taken.
    """

    def __init__(self) -> None:
        self._streams: dict[Hashable, int] = {None: COMMON}
        self._clock = [0]
        self._rows = array("q")
        self._add = self._rows.extend
        self._last = [_UNKNOWN]
        self._first_dated = [_UNKNOWN]

    @property
    def latest(self) -> int:
        """The latest exchange time of a book or trade so far."""
        return self._clock[COMMON]

    @property
    def last_place(self) -> int:
        """The place of the frame that was heard last."""
        return len(self._rows) // _COLUMNS - 1

    def hear(self, at: int | None, received_at: int | None, *, beside: bool = False, stream: Hashable = None, ordinal: int = 0) -> int:
        """The place of a frame. at: the exchange's time. beside: its subject is neither books nor trades, and it does not move their clock.

        stream: the subscription of a book, whose frames come in order; None for others. ordinal: of the frame, never less than that before.
        """
        code = self._streams.get(stream)
        if code is None:
            code = self._streams[stream] = len(self._clock)
            # A new stream follows the previous one, on another connection or in parallel.
            self._clock.append(max(self._clock[1:], default=0))
            self._last.append(_UNKNOWN)
            self._first_dated.append(_UNKNOWN)
        place = len(self._rows) // _COLUMNS
        if not beside:
            self._last[code] = place
            if at is not None:
                if self._first_dated[code] == _UNKNOWN:
                    self._first_dated[code] = place
                self._clock[code] = max(self._clock[code], at)
                self._clock[COMMON] = max(self._clock[COMMON], at)
        said = _UNKNOWN if at is None else at
        received = _UNKNOWN if received_at is None else received_at
        self._add((said, self._clock[code], self._clock[COMMON], received, _UNKNOWN if beside else code, ordinal))
        return place

    def clock(self, place: int) -> int:
        """The running maximum of the exchange's time at a place, on its stream."""
        return self._rows[place * _COLUMNS + _CLOCK]

    def last(self, stream: Hashable, ordinal: int) -> int | None:
        """The last place of a stream up to a frame; None when it has none."""
        code = self._streams.get(stream)
        place = _UNKNOWN if code is None else self._last[code]
        while place >= 0 and (self._rows[place * _COLUMNS + _STREAM] != code or self._rows[place * _COLUMNS + _ORDINAL] > ordinal):
            place -= 1
        return None if place < 0 else place

    def dated(self, place: int) -> int:
        """The last place of the same stream, up to this one, that the exchange has dated; of any stream, where that one has none, else the place itself."""
        stream = self._rows[place * _COLUMNS + _STREAM]
        has_own = stream != _UNKNOWN and 0 <= self._first_dated[stream] <= place
        for found in range(place, -1, -1):
            of = self._rows[found * _COLUMNS + _STREAM]
            if self._rows[found * _COLUMNS + _SAID] != _UNKNOWN and (of == stream if has_own else of != _UNKNOWN):
                return found
        return place

    def are_one_instant(self, one: int, other: int) -> bool:
        """Return whether two places are of one time, as far as their frames tell."""
        row, second = self._rows[one * _COLUMNS : (one + 1) * _COLUMNS], self._rows[other * _COLUMNS : (other + 1) * _COLUMNS]
        if row[_SAID] == second[_SAID] == _UNKNOWN != second[_RECEIVED]:
            return row[_RECEIVED] == second[_RECEIVED]
        return row[_CLOCK] == second[_CLOCK]

    def resolve(self, name: str) -> np.ndarray:
        """int64[places]: the time of each place, ns UTC. Raises `SchemaError` when nothing of the recording `name` is dated."""
        said, clocks, latest, received, stream, _ = np.frombuffer(self._rows, np.int64).reshape(-1, _COLUMNS).T
        if not len(said) or not (latest[-1] or (received != _UNKNOWN).any()):
            raise SchemaError(
                f"building an episode from {name}: no frame says when it was made or received; without times there is no replay"
            )
        dated = (said != _UNKNOWN) & (stream != _UNKNOWN)
        later = _next_dated(latest, dated)
        received = np.where(received == _UNKNOWN, _UNKNOWN, received + _behind(said, received, dated))
        guessed = _estimate_times(latest, received, dated, later)
        times = np.where(said != _UNKNOWN, said, np.maximum(latest, np.minimum(guessed, later)))
        order = np.argsort(stream, kind="stable")
        ends = np.cumsum(np.bincount(stream + 1))
        for places in np.split(order, ends[:-1])[1:]:
            times[places] = _order_stream_times(clocks[places], guessed[places], dated[places])
        return times


def _next_dated(clocks: np.ndarray, dated: np.ndarray) -> np.ndarray:
    """int64[places]: the time of the next dated place from each on."""
    return np.minimum.accumulate(np.where(dated, clocks, _LATEST)[::-1])[::-1]


def _behind(said: np.ndarray, received: np.ndarray, dated: np.ndarray) -> int:
    """Return the minimum lag of the receiver's clock behind the exchange's: nothing is received before it is sent. 0 for unrelated clocks."""
    both = dated & (received != _UNKNOWN)
    most = int((said[both] - received[both]).max(initial=0))
    return most if most <= _ONE_CLOCK else 0


def _order_stream_times(clocks: np.ndarray, guessed: np.ndarray, dated: np.ndarray) -> np.ndarray:
    """int64[places]: times of one stream."""
    held = np.maximum(clocks, np.minimum(guessed, _next_dated(clocks, dated)))
    return np.maximum.accumulate(np.where(dated, clocks, held))


def _estimate_times(clocks: np.ndarray, received: np.ndarray, dated: np.ndarray, later: np.ndarray) -> np.ndarray:
    """int64[places]: what an undated frame's time is taken for: that of its receipt, else that of the frame before, at the beginning of the next dated.

    Where the receiver's clock is another than the exchange's, it is as much behind the last dated frame as it was received.
    """
    last = np.maximum.accumulate(np.where(dated & (received != _UNKNOWN), np.arange(len(clocks)), -1))
    elsewhere = (last >= 0) & (np.abs(received[last] - clocks[last]) > _ONE_CLOCK)
    at = np.where(elsewhere, clocks + np.maximum(0, received - received[last]), received)
    unknown = np.where((clocks > 0) | (later == _LATEST), clocks, later)
    return np.where(received != _UNKNOWN, at, unknown)
