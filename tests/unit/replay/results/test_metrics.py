"""Metrics and frames of backtests, recomputed plainly from orders, fills and samples."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import polars as pl
import pytest

from bellwether.replay import Agent, Backtest, BacktestSettings, run
from bellwether.replay.agents.builtin import Passive
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Role, Status
from bellwether.replay.results.frames import backtests, equity, fills, frames, market_pnl, orders
from bellwether.replay.results.markouts import NONE, markouts
from bellwether.replay.results.metrics import HORIZONS, metrics
from bellwether.replay.tape.layout import SETTLE, VOID, unpack
from bellwether.replay.units import BUY, CONTRACT, DOLLAR, MICROS, SECOND, SELL, YES
from bellwether.tables import table
from bellwether.tables.replay import HORIZONS_S
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.results.traders import RULES, backtest_random, rows_of


@pytest.fixture(params=range(2))
def backtest(request: pytest.FixtureRequest) -> Backtest:
    return backtest_random(request.param)


def test_the_runs_trade_as_makers_and_takers_and_are_refused_too() -> None:
    roles = {role for seed in range(2) for (role,) in rows_of(backtest_random(seed), "fills", "role")}
    statuses = {status for seed in range(2) for (status,) in rows_of(backtest_random(seed), "orders", "status")}
    assert roles == {Role.TAKER, Role.MAKER}
    assert {Status.FILLED, Status.CANCELLED, Status.REJECTED} <= statuses


def test_money_is_exact_and_adds_up(backtest: Backtest) -> None:
    row, outcome = metrics(backtest), backtest.outcome
    assert row["pnl"] == row["final_equity"] - row["bankroll"]
    assert row["final_equity"] * MICROS == outcome.equity
    marked = Decimal(outcome.equity - outcome.cash - int(outcome.basis.sum())) / MICROS
    assert row["pnl"] == row["realised"] - row["fees"] + marked
    assert row["return"] == pytest.approx(float(row["pnl"]) / 500)
    assert -row["fees"] * MICROS == -sum(fee for (fee,) in rows_of(backtest, "fills", "fee"))


def payouts(backtest: Backtest) -> list[tuple[int, int, int | None]]:
    """Return time, market and payout of YES in micro-dollars of each market's first settlement; None for a void."""
    found: dict[int, tuple[int, int, int | None]] = {}
    for at, event in zip(backtest.tape.ts.tolist(), backtest.tape.event.tolist(), strict=True):
        kind, market, _, _, value = unpack(event)
        if kind in (SETTLE, VOID):
            found.setdefault(market, (at, market, value if kind == SETTLE else None))
    return sorted(found.values())


def account(backtest: Backtest) -> tuple[dict[int, list[int]], float]:
    """Return what trading and settlement earned in each market, with average costs kept fill by fill, and the share of time with a position."""
    lots, cost = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    earned: dict[int, list[int]] = {market: [0, 0] for market in range(len(backtest.tape.tickers))}
    columns = ("ts", "market", "side", "action", "price", "lots")
    events: list[tuple[int, int, tuple[int, ...]]] = [(row[0], 0, row[1:]) for row in rows_of(backtest, "fills", *columns)]
    events += [(at, 1, (market, -1 if value is None else value)) for at, market, value in payouts(backtest)]
    end = max(backtest.tape.end, int(backtest.tape.ts[-1]))
    held, since = 0, backtest.tape.start
    for at, kind, rest in [*sorted(events, key=lambda event: event[:2]), (end, 2, ())]:
        held += at - since if any(lots.values()) else 0
        since = at
        if kind == 0:
            market, side, action, price, size = rest
            bid, at_price = (side, price) if action == BUY else (1 - side, DOLLAR - price)
            pairs = min(lots[market, 1 - bid], size)
            if pairs:
                removed = cost[market, 1 - bid] * pairs // lots[market, 1 - bid]
                earned[market][0] += (DOLLAR - at_price) * pairs - removed
                cost[market, 1 - bid] -= removed
                lots[market, 1 - bid] -= pairs
            lots[market, bid] += size - pairs
            cost[market, bid] += at_price * (size - pairs)
        elif kind == 1:
            market, value = rest
            for side in range(2):
                pays = value if side == YES else MICROS - value
                earned[market][1] += 0 if value < 0 else pays * lots[market, side] // CONTRACT - cost[market, side]
                lots[market, side] = cost[market, side] = 0
    return earned, held / (end - backtest.tape.start)


def test_what_was_realised_came_by_trading_or_by_settlement_to_the_last_micro_dollar(backtest: Backtest) -> None:
    earned, share = account(backtest)
    outcome = backtest.outcome
    assert {market: [traded + settled, settled] for market, (traded, settled) in earned.items()} == {
        market: [int(outcome.earned[market]), int(outcome.settled[market])] for market in earned
    }
    assert int(outcome.earned.sum()) == outcome.realised
    row = metrics(backtest)
    assert row["settlement_pnl"] * MICROS == sum(settled for _, settled in earned.values())
    assert row["time_in_market"] == share


def test_slippage_is_the_cost_beyond_the_middle_of_fills_as_taker(backtest: Backtest) -> None:
    middles = [mid2 for (mid2,) in rows_of(backtest, "orders", "mid2")]
    paid, lots = Decimal(0), 0
    columns = ("order", "action", "price", "lots", "role")
    for order, action, price, size, role in rows_of(backtest, "fills", *columns):
        if role == Role.TAKER and middles[order] >= 0:
            beyond = (price - Decimal(middles[order]) / 2) / 10_000 * size / 100
            paid, lots = paid + (-beyond if action == SELL else beyond), lots + size
    row = metrics(backtest)
    assert row["slippage"] == paid
    assert row["slippage_per_contract"] == pytest.approx(float(paid) * CONTRACT / lots)


def test_the_fill_ratio_is_of_accepted_orders(backtest: Backtest) -> None:
    orders = rows_of(backtest, "orders", "count", "filled", "status")
    accepted = [(count, filled) for count, filled, status in orders if status not in {Status.REJECTED, Status.PENDING}]
    assert metrics(backtest)["fill_ratio"] == sum(filled for _, filled in accepted) / sum(count for count, _ in accepted)


def test_counts_shares_and_waits(backtest: Backtest) -> None:
    row = metrics(backtest)
    fills = rows_of(backtest, "fills", "lots", "price", "role", "wait")
    total, made = sum(fill[0] for fill in fills), [fill for fill in fills if fill[2] == Role.MAKER]
    rejected = Counter(
        codes.Reason(reason).name.lower() for status, reason in rows_of(backtest, "orders", "status", "reason") if status == Status.REJECTED
    )
    assert (row["orders"], row["fills"], row["contracts"]) == (len(backtest.outcome.orders), len(fills), Decimal(total) / 100)
    assert json.loads(row["rejections"]) == rejected
    assert row["rejected"] == rejected.total()
    assert row["maker_share"] == sum(fill[0] for fill in made) / total
    assert row["turnover"] == pytest.approx(sum(lots * price for lots, price, _, _ in fills) / MICROS / 500)
    assert row["queue_wait_median"] == pytest.approx(statistics.median(fill[3] for fill in made) / SECOND)
    assert row["queue_wait_mean"] == pytest.approx(statistics.mean(fill[3] for fill in made) / SECOND)


def test_drawdown_and_sharpe_are_of_the_sampled_curve_that_begins_with_the_bankroll(backtest: Backtest) -> None:
    samples = backtest.outcome.samples
    ts = [backtest.tape.start, *samples["ts"].tolist()]
    equity = [backtest.bankroll, *samples["equity"].tolist()]
    row, peak, worst = metrics(backtest), 0, 0.0
    for value in equity:
        peak = max(peak, value)
        worst = max(worst, (peak - value) / peak)
    assert row["max_drawdown"] == worst
    kept = [0]
    for index in range(1, len(ts)):
        if ts[index] - ts[kept[-1]] >= 5 * SECOND:
            kept.append(index)
    returns = [(equity[late] - equity[early]) / equity[early] for early, late in pairwise(kept)]
    assert row["sharpe"] == pytest.approx(statistics.mean(returns) / statistics.stdev(returns))
    assert row["sharpe_annualised"] == pytest.approx(row["sharpe"] * math.sqrt(525_960 * 12))
    assert row["sample_seconds"] == 5.0


def test_adverse_selection_weighs_the_markouts_of_maker_fills_by_contracts(backtest: Backtest) -> None:
    from bellwether.replay.results.markouts import NONE, markouts

    fills = backtest.outcome.fills
    values = markouts(backtest.tape, fills, HORIZONS).tolist()
    row = metrics(backtest)
    for column, seconds in enumerate(HORIZONS):
        known = [
            (value[column], fill["lots"])
            for value, fill in zip(values, fills, strict=True)
            if value[column] != NONE and fill["role"] == Role.MAKER
        ]
        expected = sum(value * lots for value, lots in known) / sum(lots for _, lots in known) / MICROS
        assert row[f"adverse_selection_{seconds}s"] == pytest.approx(expected)


def test_an_agent_that_failed_has_a_row_that_says_so() -> None:
    row = metrics(backtest_random(fails=20))
    assert row["failure"].startswith("ValueError: the <b>market</b> | is")
    assert row["failed_step"] == 20


def test_orders_that_never_arrived_were_not_accepted() -> None:
    row = metrics(backtest_random(latency=10**15))
    assert (row["orders"] > 0, row["fill_ratio"], row["fills"], row["maker_share"]) == (True, None, 0, None)


def test_an_agent_that_does_nothing_earns_nothing_and_what_is_undefined_is_null() -> None:
    settings = BacktestSettings(rules=RULES, bankroll=MICROS, execution="maker_taker", queue="proportional")
    row = metrics(run(random_tape(1, Shape()), Passive(), settings))
    assert (row["pnl"], row["max_drawdown"], row["time_in_market"], row["turnover"], row["rejections"]) == (0, 0.0, 0.0, 0.0, "{}")
    undefined = ("sharpe", "sharpe_annualised", "slippage", "slippage_per_contract", "fill_ratio", "maker_share", "queue_wait_median")
    assert [name for name in (*undefined, "queue_wait_mean", "adverse_selection_1s", "failure") if row[name] is not None] == []


# Frames of orders, fills and equity, compared with the engine's integers


def test_every_frame_fits_its_table(backtest: Backtest) -> None:
    for name, frame in frames(backtest, datetime(2026, 1, 1, tzinfo=UTC)).items():
        assert table(name).validate(frame).height > 0


def test_sizes_prices_and_money_are_exact(backtest: Backtest) -> None:
    frame, rows = orders(backtest), backtest.outcome.orders
    for column, name in (("count", "size"), ("filled", "filled"), ("taken", "filled_as_taker")):
        assert frame[name].to_list() == [Decimal(lots).scaleb(-2) for lots in rows[column].tolist()]
    assert frame["price"].to_list() == [Decimal(price).scaleb(-4) if price else None for price in rows["price"].tolist()]
    assert frame["fees"].to_list() == [Decimal(fee).scaleb(-6) for fee in rows["fees"].tolist()]
    assert frame["mid"].to_list() == [Decimal(mid2) / 20_000 if mid2 >= 0 else None for mid2 in rows["mid2"].tolist()]


def test_the_cost_of_orders_is_what_their_fills_moved(backtest: Backtest) -> None:
    sign = pl.when(pl.col("action") == "sell").then(-1).otherwise(1)
    moved = (
        fills(backtest).group_by("order_id").agg(moved=(sign * pl.col("price").cast(pl.Float64) * pl.col("size").cast(pl.Float64)).sum())
    )
    both = orders(backtest).join(moved, on="order_id")
    assert both["cost"].cast(pl.Float64).to_list() == pytest.approx(both["moved"].to_list())
    assert orders(backtest).filter(pl.col("filled") == 0)["cost"].unique().to_list() == [Decimal(0)]


def test_fills_have_their_markouts_and_makers_their_wait(backtest: Backtest) -> None:
    frame, rows = fills(backtest), backtest.outcome.fills
    found = markouts(backtest.tape, rows, HORIZONS_S).tolist()
    for column, seconds in enumerate(HORIZONS_S):
        expected = [None if row[column] == NONE else Decimal(row[column]).scaleb(-6) for row in found]
        assert frame[f"markout_{seconds}s"].to_list() == expected
    assert frame["queue_wait"].is_null().to_list() == [role == Role.TAKER for role in rows["role"].tolist()]


def test_the_curve_is_the_bankroll_and_then_that_of_the_engine(backtest: Backtest) -> None:
    frame, rows = equity(backtest), backtest.outcome.samples
    assert (frame["equity"] * MICROS).cast(pl.Int64).to_list() == [backtest.bankroll, *rows["equity"].tolist()]
    assert frame["at"].cast(pl.Int64).to_list() == [backtest.tape.start, *rows["ts"].tolist()]
    assert frame["sample"].to_list() == list(range(frame.height))


class Nonsense(Agent):
    """Send orders that no exchange accepts."""

    def act(self, ctx) -> None:
        if ctx.step == 0:
            large = 2**62
            for market, price, lots in ((9, 500, 100), (0, large, large), (0, -5, -large)):
                ctx._port.send("place", market, 0, 0, price, lots, 1, 0, "")


def test_orders_that_make_no_sense_are_rows_too() -> None:
    settings = BacktestSettings(rules=RULES, bankroll=MICROS, execution="maker_taker", queue="proportional")
    ran = run(random_tape(2, Shape()), Nonsense(), settings)
    frame = table("replay/orders").validate(orders(ran))
    assert frame["status"].to_list() == ["rejected"] * 3
    assert frame["ticker"].to_list() == ["unknown", "T0", "T0"]
    assert frame["price"][1] is None and frame["price"][2] is None


# P&L by market, compared with the cash of each fill and settlement


def test_the_markets_add_up_to_the_backtest(backtest: Backtest) -> None:
    rows, total = market_pnl(backtest), backtests([backtest]).row(0, named=True)
    assert rows["pnl"].sum() == total["pnl"]
    assert rows["trading_pnl"].sum() + rows["settlement_pnl"].sum() == total["realised"]
    assert (rows["settlement_pnl"].sum(), rows["fees"].sum(), rows["fills"].sum()) == (
        total["settlement_pnl"],
        total["fees"],
        total["fills"],
    )
    assert rows["unsettled"].any() == total["unsettled"]


def test_a_settled_market_earned_the_cash_that_it_moved(backtest: Backtest) -> None:
    """Purchases, sales, fees and payouts of remaining contracts, as Decimal sums over the rows of fills without a cost basis."""
    paid = {backtest.tape.tickers[market]: Decimal(value).scaleb(-6) for _, market, value in payouts(backtest) if value is not None}
    settled = market_pnl(backtest).filter(pl.col("ticker").is_in(list(paid)))
    assert settled.height
    for row in settled.iter_rows(named=True):
        cash, left = Decimal(0), {"yes": Decimal(0), "no": Decimal(0)}
        for fill in fills(backtest).filter(ticker=row["ticker"]).iter_rows(named=True):
            sign = 1 if fill["action"] == "buy" else -1
            cash -= sign * fill["price"] * fill["size"] + fill["fee"]
            left[fill["side"]] += sign * fill["size"]
        value = paid[row["ticker"]]
        # A payout is rounded down to a micro-dollar, once per side.
        assert abs(row["pnl"] - (cash + left["yes"] * value + left["no"] * (1 - value))) <= Decimal("0.000002")
        assert row["yes_bought"] - row["yes_sold"] == left["yes"] - left["no"]
        assert (row["yes_position"], row["no_position"], row["unrealised"]) == (0, 0, 0)
