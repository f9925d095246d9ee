"""Workloads of the comparison (which agent, on which engine, how often it decides), and the goals of their ratios."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
    """Run of one engine. seconds: between decisions of the agent."""

    engine: str
    agent: str
    seconds: int

    @property
    def key(self) -> str:
        return f"{self.engine} {self.agent} {self.seconds} s"


@dataclass(frozen=True)
class Row:
    """Planned line of the table: a task of this engine compared with a task of a peer. goal: minimum ratio; None if the line has no target."""

    title: str
    ours: Task
    peer: Task
    goal: float | None


#: Title, our agent, seconds between its decisions, hftbacktest's agent, and the goal.
_HFTBACKTEST = (
    ("no-op at 300 s", "noop", 300, "noop", 12),
    ("compiled maker at 60 s", "compiled", 60, "maker", 8),
    ("compiled maker at 5 s", "compiled", 5, "maker", 6),
    ("compiled maker at each touch", "follower", 300, "follower", 6),
    ("Python maker at 60 s", "vector", 60, "maker", 3),
    ("Python maker at 5 s", "vector", 5, "maker", 1),
)
_NAUTILUS = (("no-op at 300 s", "noop", 300, "noop"), ("Python maker at 60 s", "vector", 60, "maker"))
_NAUTILUS_GOAL = 300


def rows(tape: str, peers: Collection[str]) -> list[Row]:
    """Return the planned lines for a tape (name of a recording, or "synthetic") and the given peers. nautilus_trader replays the synthetic tape
    only.
    """
    found = []
    for title, agent, seconds, theirs, goal in _HFTBACKTEST if "hftbacktest" in peers else ():
        found.append(Row(f"{title}, hftbacktest", Task("ours", agent, seconds), Task("hftbacktest", theirs, seconds), goal))
    for title, agent, seconds, theirs in _NAUTILUS if tape == "synthetic" and "nautilus_trader" in peers else ():
        peer = Task("nautilus_trader", theirs, seconds)
        found.append(Row(f"{title}, nautilus_trader", Task("ours", agent, seconds), peer, _NAUTILUS_GOAL))
    return found


def tasks(of: Iterable[Row]) -> list[Task]:
    """Return the tasks of the given lines without repetitions, each of ours next to the peer's."""
    return list(dict.fromkeys(task for row in of for task in (row.ours, row.peer)))
