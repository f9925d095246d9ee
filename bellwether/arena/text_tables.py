"""Text tables of the arena for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.text import Text

from bellwether.console import plain_grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bellwether.arena.weekly.queries import DecisionExplanation

STATUS_NOTE = (
    "past: reconstructed. made, inv., left: decisions with a usable answer, with an unusable answer, and without a final state. ref.: "
    "refused legs. open: positions. "
    "done: the cohort is complete."
)
_COLUMNS = ("family", "stated", "size", "price", "n", "return", "won", "bets", "ref.", "unm.", "inv.", "left", "cost")
_NOTE = (
    "stated, size, price: mean Brier scores of stated probabilities, of confidences implied by bet sizes, and of prices paid, over n bets with a "
    "winner; lower is better. ref.: refused legs. unm.: share of the dollars traded without a counterparty in the book. inv.: unusable answers. "
    "left: decisions without a final state."
)


def is_preview(rows: pl.DataFrame) -> bool:
    """Return whether nothing was traded yet: a leaderboard without bets, turnover, profit or loss."""
    return rows.select((pl.col("profit", "bets", "turnover") == 0).all()).row(0) == (True, True, True)


def status_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Select and rename the columns of `query_week_status` for the terminal. With built-in names the table is at most 80 characters wide."""
    return rows.select(
        "week",
        "lineup",
        pl.col("methodology").alias("method"),
        yes_column("reconstructed").alias("past"),
        pl.col("markets").alias("mkts"),
        pl.col("finished").alias("made"),
        pl.col("invalid").alias("inv."),
        pl.col("unfinished").alias("left"),
        "trades",
        pl.col("refused").alias("ref."),
        pl.col("open_positions").alias("open"),
        pl.col("cost").round(2).cast(pl.Decimal(scale=2)).alias("cost"),
        yes_column("complete").alias("done"),
    )


def agent_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Select and rename the columns of `query_cohort` for the terminal, with money in whole cents."""
    cents = [pl.col(name).round(2).cast(pl.Decimal(scale=2)) for name in ("total", "profit")]
    closed = [yes_column("closed")] if rows["closed"].any() else []
    return rows.select(
        "family",
        "model",
        *closed,
        *cents,
        pl.col("refused").alias("ref."),
        pl.col("scored").alias("n"),
        pl.col("brier_stated").round(3).alias("stated"),
        pl.col("won").round(2),
    )


def yes_column(name: str) -> pl.Expr:
    """Return an expression that shows a boolean column as "yes" or "no"."""
    return pl.when(name).then(pl.lit("yes")).when(pl.col(name).not_()).then(pl.lit("no")).alias(name)


def render_leaderboard(rows: pl.DataFrame) -> Iterator[RenderableType]:
    """Yield a table of the books of all families for each methodology and kind of cohort (live or reconstructed), and a note that explains the
    columns.
    """
    for key, part in rows.group_by("methodology", "reconstructed", maintain_order=True):
        cohorts = part["cohorts"].max()
        kind = "reconstructed" if key[1] else "live"
        title = (
            f"Arena, {key[0]!s}: {cohorts!s} {kind} cohort{'' if cohorts == 1 else 's'}{', nothing traded yet' if is_preview(part) else ''}"
        )
        grid = plain_grid(Text(title), _COLUMNS, ("family",))
        for row in part.iter_rows(named=True):
            grid.add_row(*map(Text, _leaderboard_cells(row)))
        yield grid
    yield Text(_NOTE if rows.height else "No cohort has started. `bellwether arena run` starts one.", style="dim")


def _leaderboard_cells(row: dict[str, object]) -> list[str]:
    return [
        str(row["family"]),
        *("–" if (score := row[name]) is None else f"{float(str(score)):.3f}" for name in ("brier_stated", "brier_size", "brier_price")),
        str(row["scored"]),
        f"{100 * float(str(row['return'])):+.1f}%",
        "–" if row["win_rate"] is None else f"{100 * float(str(row['win_rate'])):.0f}%",
        str(row["bets"]),
        str(row["refused"]),
        "–" if row["unmatched"] is None else f"{100 * float(str(row['unmatched'])):.0f}%",
        str(row["invalid"]),
        str(row["unfinished"]),
        "?" if row["cost"] is None else f"${float(str(row['cost'])):.2f}",
    ]


def render_explanation(explanation: DecisionExplanation) -> Iterator[tuple[str, str]]:
    """Yield the records of a decision as (title, text): prompt, answers, parsed decision, calls and executions."""
    if explanation.plan is not None:
        yield (
            "Prompt",
            f"{explanation.plan.model}, {explanation.plan.prompt_version}, {explanation.plan.prompt_hash}, made {explanation.plan.planned_at.isoformat()}",
        )
        for message in explanation.plan.messages:
            yield message["role"], message["content"]
    for number, answer in enumerate(explanation.answers, start=1):
        yield f"Answer {number}", answer[:20_000] or "(empty)"
    if explanation.intent is None:
        yield "Read as", "nothing yet"
        return
    decision = explanation.intent.decision
    cost = "unknown" if explanation.intent.cost is None else f"${explanation.intent.cost / 1_000_000:.6f}"
    yield "Read as", decision.to_json() if decision.problem is None else f"INVALID: {decision.problem}: {decision.message}"
    yield "Calls", f"{len(explanation.intent.calls)}, cost {cost}"
    for number, execution in enumerate(explanation.executions, start=1):
        yield (
            f"Execution {number}",
            f"{execution.executed_at.isoformat()}: {len(execution.trades)} trades, {len(execution.refusals)} refused legs",
        )


def explanation_to_dict(explanation: DecisionExplanation) -> dict[str, Any]:
    """Convert the records of a decision to a dictionary for JSON."""
    intent = explanation.intent
    return {
        "decision": explanation.decision_id,
        "prompt": None
        if explanation.plan is None
        else {"model": explanation.plan.model, "messages": list(explanation.plan.messages), "hash": explanation.plan.prompt_hash},
        "answers": list(explanation.answers),
        "read": None
        if intent is None
        else {
            "action": intent.decision.action,
            "problem": intent.decision.problem,
            "message": intent.decision.message,
            "json": intent.decision.to_json(),
        },
        "cost": None if intent is None or intent.cost is None else f"{intent.cost / 1_000_000:.6f}",
        "executions": [
            {"at": execution.executed_at, "trades": len(execution.trades), "refusals": len(execution.refusals)}
            for execution in explanation.executions
        ],
        "refusals": explanation.refusals.to_dicts(),
        "trades": explanation.trades.to_dicts(),
        "cash": explanation.ledger.to_dicts(),
    }
