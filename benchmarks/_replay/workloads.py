"""Workloads of the comparison, and their goals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SECOND = 10**9
#: Latencies of every engine: of orders each way, and of market data.
ORDER_LATENCY, DATA_LATENCY = SECOND // 10, SECOND // 20
#: The maker's order and its limit of inventory, contracts.
SIZE, LIMIT = 10, 200
#: nautilus_trader replays this part of the synthetic day: it takes thirty seconds for the whole.
NAUTILUS_SHARE = 8


@dataclass(frozen=True)
class Task:
    """One run of one engine. book: of hftbacktest."""

    engine: str
    agent: str
    seconds: int
    book: str = ""

    @property
    def key(self) -> str:
        return " ".join(part for part in (self.engine, self.book, self.agent, f"{self.seconds} s") if part)


@dataclass(frozen=True)
class Row:
    """A line of the table: our task against a peer's; `at_least` None where the line only informs."""

    title: str
    ours: Task
    peer: Task
    at_least: float | None


def ours(agent: str, seconds: int) -> Task:
    return Task("ours", agent, seconds)


def hft(agent: str, seconds: int, book: str = "roi") -> Task:
    return Task("hftbacktest", agent, seconds, book)


def nautilus(agent: str, seconds: int) -> Task:
    return Task("nautilus_trader", agent, seconds)


HFTBACKTEST = (
    Row("no-op at 300 s, hftbacktest ROIVector", ours("noop", 300), hft("noop", 300), 10),
    Row("compiled maker at 60 s, hftbacktest's compiled maker", ours("compiled", 60), hft("maker", 60), 10),
    Row("compiled maker at 5 s, hftbacktest's compiled maker", ours("compiled", 5), hft("maker", 5), 10),
    Row("compiled maker at each change of a touch, hftbacktest's event loop", ours("follower", 300), hft("follower", 300), None),
    Row("Python maker at 60 s, hftbacktest's compiled maker", ours("vector", 60), hft("maker", 60), 3),
    Row("Python maker at 5 s, hftbacktest's compiled maker", ours("vector", 5), hft("maker", 5), 1),
)
FURTHER = (
    Row("plain Python maker at 60 s, hftbacktest's compiled maker", ours("python", 60), hft("maker", 60), None),
    Row("no-op at 300 s, hftbacktest HashMap", ours("noop", 300), hft("noop", 300, "hashmap"), None),
    Row("compiled maker at 60 s, hftbacktest's on HashMap", ours("compiled", 60), hft("maker", 60, "hashmap"), None),
)
NAUTILUS = (
    Row("no-op at 300 s, nautilus_trader", ours("noop", 300), nautilus("noop", 300), 300),
    Row("Python maker at 60 s, nautilus_trader's", ours("vector", 60), nautilus("maker", 60), 150),
)


def rows(tape: str) -> tuple[Row, ...]:
    """The lines of a tape: all of the synthetic one, those against hftbacktest of a recording."""
    return (*HFTBACKTEST, *FURTHER, *NAUTILUS) if tape == "synthetic" else HFTBACKTEST


def tasks(of: tuple[Row, ...]) -> Iterator[Task]:
    """Every task once, ours and theirs side by side."""
    seen = set()
    for row in of:
        for task in (row.ours, row.peer):
            if task not in seen:
                seen.add(task)
                yield task
