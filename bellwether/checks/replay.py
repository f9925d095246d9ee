"""Rules for episodes and backtests."""

from __future__ import annotations

import polars as pl

from bellwether.checks.rule import DEMO_GAP, Rule, applies_to, holds, present, prices, unique, words

_EPISODE = (
    unique("episode", "ticker"),
    words("known_result", "a result is YES, NO, SCALAR or VOID", "result", "YES", "NO", "SCALAR", "VOID", blocking=True),
    holds(
        "at_most_one_winner",
        "at most one market of a mutually exclusive event resolves yes",
        applies_to(pl.col("mutually_exclusive"), (pl.col("result") == "YES").sum().over("episode") <= 1),
        blocking=True,
    ),
    prices("settlement_value"),
    holds("ends_after_it_starts", "an episode ends after its start", pl.col("end_at") > pl.col("start_at"), blocking=True),
    present("settled", "the market has a result", "result"),
    holds("no_gaps", "the book was valid throughout the episode", pl.col("gaps") == 0, expected=DEMO_GAP),
)

_BOOK_VALUES = ("bid", "ask", "bid_size", "ask_size", "bid_depth", "ask_depth", "bid_prices", "bid_sizes", "ask_prices", "ask_sizes")

_BOOK = (
    unique("episode", "ticker", "at"),
    prices("bid", "ask"),
    holds(
        "nothing_of_an_invalid_book",
        "a book that is not valid has neither prices nor sizes",
        applies_to(~pl.col("valid"), pl.all_horizontal(pl.col(name).is_null() for name in _BOOK_VALUES)),
        blocking=True,
    ),
    holds(
        "a_price_has_contracts",
        "of a valid book a side has contracts exactly where it has a price, and its depth is no less than what is at the best price",
        applies_to(
            pl.col("valid"),
            pl.all_horizontal(
                (pl.col(side).is_not_null() == (pl.col(f"{side}_size") > 0)) & (pl.col(f"{side}_depth") >= pl.col(f"{side}_size"))
                for side in ("bid", "ask")
            ),
        ),
        blocking=True,
    ),
    holds("bid_below_ask", "the best bid is below the best ask", pl.col("bid") < pl.col("ask")),
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
    "replay/books": _BOOK,
    "replay/orders": _ORDER,
    "replay/fills": _FILL,
    "replay/backtests": _BACKTEST,
}
