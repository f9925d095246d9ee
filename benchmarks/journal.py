"""What the journal adds to one model call on SQLite: claim, begin within a budget and answer, each durable, as CPU time against 2 ms."""

from __future__ import annotations

import tempfile
import time
from datetime import timedelta
from typing import Any

from bellwether.journal import Budget, Claim, CostSource, Journal, Reply, Request, Scope, Usage

CALLS = 200
ROUNDS = 7
BUDGET_MS = 2.0
TARGET = 1.0
LEASE = timedelta(minutes=2)


def _request(number: int) -> Request:
    """A prompt of four thousand characters."""
    text = f"{number:06d} " + "What is the probability that it happens? " * 100
    return Request("acme/oracle-2", [{"role": "user", "content": text}], "benchmark/forecasts", {"temperature": 0}, scope="r2026")


def _call(journal: Journal, number: int, budget: Budget) -> None:
    claim = journal.claim(_request(number), lease=LEASE, run="run")
    assert isinstance(claim, Claim)
    usage = Usage(1000, 300, None, 4_500, CostSource.PROVIDER)
    claim.begin(estimate=10_000, budgets=(budget,)).answer(Reply(b"y" * 2000, "0.7 " * 250, None, "stop", usage, 200, "req", 900))


def run() -> list[dict[str, Any]]:
    """[{name, ratio, target, detail}]: this process' CPU time per call, the kernel's included, in the best round: others slow the rest."""
    spent, budget = [], Budget(10**12, Scope(run="run"))
    with tempfile.TemporaryDirectory() as folder, Journal(f"sqlite:///{folder}/journal.db") as journal:
        _call(journal, 0, budget)
        for turn in range(ROUNDS):
            started = time.process_time()
            for number in range(CALLS):
                _call(journal, 1 + turn * CALLS + number, budget)
            spent.append((time.process_time() - started) / CALLS * 1e3)
    best = min(spent)
    detail = f"{best:.2f} ms of CPU per model call, three durable transactions and a budget over up to {ROUNDS * CALLS} attempts"
    return [{"name": "journal", "ratio": best / BUDGET_MS, "target": TARGET, "detail": detail}]
