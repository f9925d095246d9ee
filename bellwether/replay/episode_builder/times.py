"""Times of a recording's frames: the exchange's time if the frame states one, otherwise an estimate.

A *dated* frame states an exchange time. A *stream* is a book subscription, whose frames arrive in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable

import numpy as np

from bellwether.errors import SchemaError

_UNKNOWN = -1
_LATEST = np.iinfo(np.int64).max
#: Clocks that differ by more than this are unrelated, as in a recording of a sandbox with accelerated time.
_ONE_CLOCK = 60_000_000_000
#: Columns of a place: exchange time, clock of its stream, clock of all streams, receipt, stream, ordinal of the frame.
_STATED, _CLOCK, _LATEST_CLOCK, _RECEIVED, _STREAM, _ORDINAL = range(6)
_COLUMNS = 6
#: Stream of frames without a book subscription, such as trades; its clock also follows those of the books.
COMMON = 0


class Times:
    """Times of frames. `add` numbers each frame in the order of arrival (its *place*), and `resolve` computes the time of each place.

    Frames of one stream are in order: the time of a frame is the running maximum of the stream's exchange times. A frame without exchange
    time gets its time of receipt, limited to the interval between the dated frames before and after it; a receiver's clock found to be
    behind the exchange's is corrected by the difference. Without a time of receipt it gets the time of the previous frame, and at the
    beginning that of the first dated one. If no frame has an exchange time, times of receipt are used.
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
        """Latest exchange time of a book or trade so far, ns UTC; 0 without any."""
        return self._clock[COMMON]

    def add(self, at: int | None, received_at: int | None, *, aside: bool = False, stream: Hashable = None, ordinal: int = 0) -> int:
        """Add a frame and return its place.

        at: exchange time. received_at: time of receipt. aside: the frame concerns neither books nor trades and does not advance their
        clock. stream: book subscription, whose frames arrive in order; None for other frames. ordinal: of the frame, never decreasing.
        """
        code = self._streams.get(stream)
        if code is None:
            code = self._streams[stream] = len(self._clock)
            # A new stream follows the previous one, on another connection or in parallel.
            self._clock.append(max(self._clock[1:], default=0))
            self._last.append(_UNKNOWN)
            self._first_dated.append(_UNKNOWN)
        place = len(self._rows) // _COLUMNS
        if not aside:
            self._last[code] = place
            if at is not None:
                if self._first_dated[code] == _UNKNOWN:
                    self._first_dated[code] = place
                self._clock[code] = max(self._clock[code], at)
                self._clock[COMMON] = max(self._clock[COMMON], at)
        stated, received = (_UNKNOWN if time is None else time for time in (at, received_at))
        self._add((stated, self._clock[code], self._clock[COMMON], received, _UNKNOWN if aside else code, ordinal))
        return place

    def clock(self, place: int) -> int:
        """Return the latest exchange time, up to a place, of the stream to which the place belongs."""
        return self._rows[place * _COLUMNS + _CLOCK]

    def last(self, stream: Hashable, ordinal: int) -> int | None:
        """Return the last place of a stream whose frame is not after `ordinal`. None if the stream has no such frame."""
        code = self._streams.get(stream)
        place = _UNKNOWN if code is None else self._last[code]
        while place >= 0 and (self._rows[place * _COLUMNS + _STREAM] != code or self._rows[place * _COLUMNS + _ORDINAL] > ordinal):
            place -= 1
        return None if place < 0 else place

    def last_dated_place(self, place: int) -> int:
        """Return the last dated place up to `place`: of the same stream, else of any stream, else `place` itself."""
        stream = self._rows[place * _COLUMNS + _STREAM]
        has_own = stream != _UNKNOWN and 0 <= self._first_dated[stream] <= place
        for earlier in range(place, -1, -1):
            of = self._rows[earlier * _COLUMNS + _STREAM]
            if self._rows[earlier * _COLUMNS + _STATED] != _UNKNOWN and (of == stream if has_own else of != _UNKNOWN):
                return earlier
        return place

    def are_one_instant(self, place: int, other: int) -> bool:
        """Return True if two frames have the same time: the exchange's, or that of receipt if neither states an exchange time."""
        row, second = (self._rows[number * _COLUMNS : (number + 1) * _COLUMNS] for number in (place, other))
        if row[_STATED] == second[_STATED] == _UNKNOWN != second[_RECEIVED]:
            return row[_RECEIVED] == second[_RECEIVED]
        return row[_CLOCK] == second[_CLOCK]

    def resolve(self, name: str) -> np.ndarray:
        """Compute the time of each place, int64[places], ns UTC. Raises `SchemaError` if no frame of the recording `name` has a time."""
        stated, clocks, latest, received, stream, _ = np.frombuffer(self._rows, np.int64).reshape(-1, _COLUMNS).T
        if not len(stated) or not (latest[-1] or (received != _UNKNOWN).any()):
            raise SchemaError(f"building an episode from {name}: no frame has a time of creation or receipt; record it again")
        dated = (stated != _UNKNOWN) & (stream != _UNKNOWN)
        later = _next_dated(latest, dated)
        received = np.where(received == _UNKNOWN, _UNKNOWN, received + _clock_lag(stated, received, dated))
        estimated = _estimate_times(latest, received, dated, later)
        times = np.where(stated != _UNKNOWN, stated, np.maximum(latest, np.minimum(estimated, later)))
        order = np.argsort(stream, kind="stable")
        ends = np.cumsum(np.bincount(stream + 1))
        for places in np.split(order, ends[:-1])[1:]:
            own = np.minimum(estimated[places], _next_dated(clocks[places], dated[places]))
            # The times of one stream never decrease.
            times[places] = np.maximum.accumulate(np.where(dated[places], clocks[places], np.maximum(clocks[places], own)))
        return times


def _next_dated(clocks: np.ndarray, dated: np.ndarray) -> np.ndarray:
    """Return the time of the first dated place at or after each place, int64[places]. clocks: latest exchange time at each place."""
    return np.minimum.accumulate(np.where(dated, clocks, _LATEST)[::-1])[::-1]


def _clock_lag(stated: np.ndarray, received: np.ndarray, dated: np.ndarray) -> int:
    """Return how far the receiver's clock is at least behind the exchange's, ns; 0 if the two are unrelated.

    Nothing is received before the exchange sends it. stated, received: exchange times and times of receipt.
    """
    both = dated & (received != _UNKNOWN)
    lag = int((stated[both] - received[both]).max(initial=0))
    return lag if lag <= _ONE_CLOCK else 0


def _estimate_times(clocks: np.ndarray, received: np.ndarray, dated: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Estimate the times of undated frames, int64[places]. clocks: latest exchange time so far. later: time of the next dated frame.

    The estimate is the time of receipt, else the time of the previous frame, at the beginning that of the next dated frame. If the
    receiver's clock is unrelated to the exchange's, the time since the receipt of the last dated frame is added to that frame's time.
    """
    last = np.maximum.accumulate(np.where(dated & (received != _UNKNOWN), np.arange(len(clocks)), -1))
    elsewhere = (last >= 0) & (np.abs(received[last] - clocks[last]) > _ONE_CLOCK)
    at = np.where(elsewhere, clocks + np.maximum(0, received - received[last]), received)
    unknown = np.where((clocks > 0) | (later == _LATEST), clocks, later)
    return np.where(received != _UNKNOWN, at, unknown)
