"""When things in a recording happened, in the exchange's time, as far as frames tell it."""

from __future__ import annotations

from array import array

import numpy as np

from bellwether.errors import SchemaError

_UNKNOWN = -1
_LATEST = np.iinfo(np.int64).max
#: Clocks that differ by more than this are not of one world: a recording of a sandbox whose time flies.
_ONE_CLOCK = 60_000_000_000


class Times:
    """The times of frames in order of arrival. `hear` gives each a place; `resolve` turns places into nanoseconds since 1970, UTC.

    A frame is never older than the one before it: its time is the running maximum of what the exchange has said. One that the exchange has not
    dated gets its time of receipt, held between the dated ones before and behind it. Without a time of receipt it is as old as the one before it, and
    at the beginning as the first that is dated. Where the exchange dates nothing, the times of receipt are taken.
    """

    def __init__(self) -> None:
        self._clock = 0
        self._said, self._clocks, self._received = (array("q") for _ in range(3))
        self._beside = bytearray()

    def hear(self, at: int | None, received_at: int | None, *, beside: bool = False) -> int:
        """The place of a frame. at: the exchange's time. beside: it tells of something else than books and trades, and does not move their clock."""
        if at is not None and not beside:
            self._clock = max(self._clock, at)
        self._said.append(_UNKNOWN if at is None else at)
        self._clocks.append(self._clock)
        self._received.append(_UNKNOWN if received_at is None else received_at)
        self._beside.append(beside)
        return len(self._said) - 1

    def are_one_instant(self, one: int, other: int) -> bool:
        """Whether two places are of one time, as far as their frames tell."""
        if self._said[one] == self._said[other] == _UNKNOWN != self._received[other]:
            return self._received[one] == self._received[other]
        return self._clocks[one] == self._clocks[other]

    def resolve(self, name: str) -> np.ndarray:
        """int64[places]: the time of each place, ns UTC. Raises `SchemaError` when nothing of the recording `name` is dated."""
        said, clocks, received = (np.frombuffer(column, np.int64) for column in (self._said, self._clocks, self._received))
        beside = np.frombuffer(self._beside, np.bool_)
        if not len(said) or not (clocks[-1] or (received != _UNKNOWN).any()):
            raise SchemaError(
                f"building an episode from {name}: no frame says when it was made or received; without times there is no replay"
            )
        dated = (said != _UNKNOWN) & ~beside
        later = np.minimum.accumulate(np.where(dated, clocks, _LATEST)[::-1])[::-1]
        guessed = np.minimum(_guessed(clocks, received, dated), later)
        times = np.where(dated, clocks, np.maximum(clocks, guessed))
        # Undated and never received, behind all that is dated or beside nothing that is.
        times = np.where(times == _LATEST, clocks, times)
        ordered = np.maximum.accumulate(np.where(beside, 0, times))
        return np.where(beside & (said != _UNKNOWN), said, np.where(beside, times, ordered))


def _guessed(clocks: np.ndarray, received: np.ndarray, dated: np.ndarray) -> np.ndarray:
    """int64[places]: the time of receipt; where that clock is another than the exchange's, as much behind the last dated frame as it was received."""
    last = np.maximum.accumulate(np.where(dated & (received != _UNKNOWN), np.arange(len(clocks)), -1))
    elsewhere = (last >= 0) & (np.abs(received[last] - clocks[last]) > _ONE_CLOCK)
    at = np.where(elsewhere, clocks + np.maximum(0, received - received[last]), received)
    return np.where(received != _UNKNOWN, at, np.where(clocks > 0, clocks, _LATEST))
