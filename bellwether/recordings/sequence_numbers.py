"""Sequence numbers of a subscription: received and missing ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

#: Key of a subscription: the ordinal of its connection, and its id there.
Key = tuple[int, int]


@dataclass(slots=True)
class SequenceNumbers:
    """Received and missing sequence numbers of one subscription.

    ranges: missing numbers as (first, last), inclusive, in ascending order. kinds: frames by type. was_missing: the last counted number had
    been missing.
    """

    connection: int
    sid: int
    first: int
    last: int
    received: int = 0
    duplicates: int = 0
    inversions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    markets: set[str] = field(default_factory=set)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    was_missing: bool = False

    @property
    def missing(self) -> int:
        """Number of skipped sequence numbers that never arrived."""
        return sum(last - first + 1 for first, last in self.ranges)

    def count(self, seq: int) -> bool:
        """Count a received sequence number. Returns True if numbers were skipped before it."""
        self.received += 1
        if seq == self.last + 1:
            self.last = seq
            return False
        if seq > self.last:
            self.ranges.append((self.last + 1, seq - 1))
            self.last = seq
            return True
        self.was_missing = self._fill(seq)
        if self.was_missing:
            self.inversions += 1
        else:
            self.duplicates += 1
        return False

    def _fill(self, seq: int) -> bool:
        """Remove a late number from the missing ones. Returns False if the number was not missing."""
        place = bisect_right(self.ranges, (seq, self.last)) - 1
        if place < 0 or seq > self.ranges[place][1]:
            return False
        first, last = self.ranges[place]
        self.ranges[place : place + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
        return True


def count_within(ranges: list[tuple[int, int]], first: int, last: int) -> int:
    """Return how many numbers from `first` to `last` lie in these ascending ranges."""
    place = max(0, bisect_right(ranges, (first, first)) - 1)
    count = 0
    for start, end in ranges[place:]:
        if start > last:
            break
        count += max(0, min(end, last) - max(start, first) + 1)
    return count
