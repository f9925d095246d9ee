"""Rules of episodes and backtests."""

from __future__ import annotations

import polars as pl

from bellwether.checks.rule import Rule, between, concerning, holds, present, prices, unique, words

_EPISODE = (
    unique("episode", "ticker"),
    words("known_result", "a result is YES, NO, SCALAR or VOID", "result", "YES", "NO", "SCALAR", "VOID", blocking=True),
    holds(
        "at_most_one_winner",
        "at most one market of a mutually exclusive event resolves yes",
        concerning(pl.col("mutually_exclusive"), (pl.col("result") == "YES").sum().over("episode") <= 1),
        blocking=True,
    ),
    prices("settlement_value"),
    holds("ends_after_it_starts", "an episode ends after its start", pl.col("end_at") > pl.col("start_at"), blocking=True),
    present("settled", "the market has a result", "result"),
    between("no_gaps", "the book could be trusted throughout", "gaps", None, 0),
)

_ORDER = (
    unique("episode", "agent", "order_id"),
    holds(
        "filled_within_its_size",
        "an order is filled up to its size",
        pl.col("filled").is_between(0, pl.col("size")),
        blocking=True,
    ),
)

_FILL = (
    unique("episode", "agent", "fill_id"),
    prices("price"),
    holds("fills_something", "a fill has contracts", pl.col("size") > 0, blocking=True),
    words("known_role", "whoever fills takes or makes", "role", "taker", "maker", blocking=True),
)

_BACKTEST = (
    unique("episode", "agent"),
    holds(
        "pnl_is_the_change",
        "P&L is final equity less bankroll",
        pl.col("pnl") == pl.col("final_equity") - pl.col("bankroll"),
        blocking=True,
    ),
    holds("agent_did_not_fail", "the agent went through its episode without an error", pl.col("failure").is_null()),
    holds("all_settled", "no position was left unsettled", ~pl.col("unsettled")),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "replay/episodes": _EPISODE,
    "replay/orders": _ORDER,
    "replay/fills": _FILL,
    "replay/backtests": _BACKTEST,
}
