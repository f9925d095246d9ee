"""Rankings of 20 families, 100 cohorts and 20,000 scored forecasts with 10,000 replicates, against a least-squares fit per replicate."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from bellwether.arena.rankings import rankings
from bellwether.calibration.inference import Inference
from benchmarks._arena_worlds import Simulated

SECONDS, FASTER = 10.0, 50.0
#: Replicates of the plain loop that are measured; the rest would take as long each.
LOOPED = 3


def run() -> list[dict[str, Any]]:
    """CPU seconds of all ranking tables, and their share of the plain loop's: [{name, ratio, target, detail}]."""
    inputs = Simulated({f"f{index:02}": 0.1 + index / 10 for index in range(20)}, cohorts=100, bets=2).inputs(1)
    plan = Inference()
    rankings(Simulated({"a": 0.1, "b": 1.0}).inputs(1), replace(plan, replicates=200))
    start = time.process_time()
    rankings(inputs, plan)
    ours = time.process_time() - start
    theirs = _loop(inputs.bets, LOOPED) / LOOPED * plan.replicates
    detail = f"{inputs.bets.height:,} forecasts, {plan.replicates:,} replicates: {ours:.1f} s of CPU; a least-squares fit per replicate {theirs:,.0f} s"
    return [
        {"name": "arena rankings, CPU seconds", "ratio": ours, "target": SECONDS, "detail": detail},
        {"name": "arena rankings against a loop", "ratio": ours / theirs, "target": 1 / FASTER, "detail": detail},
    ]


def _loop(bets: pl.DataFrame, replicates: int) -> float:
    """CPU seconds of replicates as one writes them: draw events, take their rows, score with scikit-learn, fit both effects by sparse least squares."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import lsqr
    from sklearn.metrics import brier_score_loss

    family, question, event = (bets[name].rank("dense").to_numpy().astype(np.intp) - 1 for name in ("family", "question", "event"))
    p, y = bets["p"].to_numpy(), bets["y"].to_numpy()
    rows_of = [np.flatnonzero(event == index) for index in range(event.max() + 1)]
    generator, families, width = np.random.default_rng(1), int(family.max()) + 1, int(question.max()) + 1
    start = time.process_time()
    for _ in range(replicates):
        rows = np.concatenate([rows_of[index] for index in generator.integers(0, len(rows_of), len(rows_of))])
        for index in range(families):
            mine = rows[family[rows] == index]
            brier_score_loss(y[mine], p[mine])
        at = np.arange(len(rows))
        places = (np.concatenate([at, at]), np.concatenate([family[rows], families + question[rows]]))
        design = csr_array((np.ones(2 * len(rows)), places), shape=(len(rows), families + width))
        lsqr(design, np.square(p[rows] - y[rows]), atol=1e-8, btol=1e-8)
    return time.process_time() - start
