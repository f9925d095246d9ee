"""Several episodes in one run, with one bankroll and one clock."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import CENT, CONTRACT, DOLLAR, NO, YES, Agent, AgentContext, BacktestSettings, Prepared, prepare, run
from bellwether.replay.engine.codes import Status
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape
from bellwether.replay.units import MICROS, MILL, SECOND
from tests.reference.replay.both_engines import shift
from tests.reference.replay.test_engine import BY_SHARES, KALSHI, RICH
from tests.reference.replay.test_portfolios import SUBCENT, random_tape
from tests.unit.replay.results.tapes import Event, tape

KALSHI_RULES, POLYMARKET_RULES = "kalshi-2026-05-28", "polymarket-2026-04-01"


def part(name: str, made: Tape, rules: str = KALSHI_RULES, **changed: Any) -> Prepared:
    """Return an episode of one tape whose markets have its name."""
    found = prepare(replace(made, tickers=tuple(f"{name}-{ticker}" for ticker in made.tickers)), rules)
    return replace(found, info=replace(found.info, id=name, **changed), digest=f"digest of {name}")


def random_part(name: str, seed: int, rules: str, start: int, fees: tuple[int, ...]) -> Prepared:
    shape = replace(SUBCENT, fees=fees, instants=250, trades=0.6)
    return part(name, shift(random_tape(seed, shape), start * SECOND), rules)


class Apart(Agent):
    """Trade each market from the time and knowledge of that market alone."""

    def start(self, ctx: AgentContext, episode: Any) -> None:
        self.sent: dict[str, list[Any]] = {ticker: [] for ticker in episode.tickers}

    def act(self, ctx: AgentContext) -> None:
        for market in ctx.markets():
            if not market.is_active:
                continue
            draw = Random(f"{market.ticker} {ctx.now_ns}")
            for order in self.sent[market.ticker][-3:]:
                if draw.random() < 0.2:
                    ctx.cancel(order)
            price, side = market.yes_bid, draw.choice((YES, NO))
            lots = 500 + draw.randrange(3000)
            if draw.random() < 0.3:
                ctx.buy(market.ticker, side, lots)
            elif price is not None:
                own = price if side == YES else DOLLAR - price
                self.sent[market.ticker].append(
                    ctx.buy(market.ticker, side, lots, min(max(own - MILL * draw.randrange(-1, 4), MILL), DOLLAR - MILL))
                )


SETTINGS = BacktestSettings(cadence=SECOND, bankroll=RICH)


def episodes() -> list[Prepared]:
    """Return two simultaneous episodes of two venues, and one that begins after both."""
    return [
        random_part("KXONE", 1, KALSHI_RULES, 0, KALSHI),
        random_part("poly-two", 2, POLYMARKET_RULES, 30, BY_SHARES),
        random_part("KXTHREE", 3, "kalshi-2026-03-09", 4000, KALSHI),
    ]


@pytest.mark.parametrize("changed", [{}, {"order_latency": SECOND // 3, "data_latency": SECOND // 2}], ids=str)
def test_independent_episodes_earn_together_what_they_earn_apart(changed: dict[str, Any]) -> None:
    settings = replace(SETTINGS, **changed)
    alone = [run(one, Apart(), settings) for one in episodes()]
    together = run(episodes(), Apart(), settings)
    assert together.failure is None
    assert together.outcome.pnl == sum(one.outcome.pnl for one in alone)
    assert together.outcome.fees == sum(one.outcome.fees for one in alone)
    assert len(together.outcome.fills) == sum(len(one.outcome.fills) for one in alone) > 500
    first = 0
    for one in alone:
        codes = together.outcome.fills["market"]
        own = together.outcome.fills[(codes >= first) & (codes < first + len(one.tape.tickers))]
        own["market"] -= first
        own["order"] = one.outcome.fills["order"]
        assert np.array_equal(own, one.outcome.fills)
        first += len(one.tape.tickers)
    for one in alone:
        for row in one.market_pnl.iter_rows(named=True):
            assert together.market_pnl.filter(ticker=row["ticker"])["pnl"].item() == row["pnl"]


def test_markets_of_several_episodes_add_up_to_the_run() -> None:
    done = run(episodes(), Apart(), SETTINGS)
    summary = done.summary.row(0, named=True)
    assert done.market_pnl["pnl"].sum() == summary["pnl"]
    assert done.market_pnl["fees"].sum() == summary["fees"]
    assert done.market_pnl.height == sum(len(one.tape.tickers) for one in episodes())
    assert summary["episode"] == done.episode == "KXONE+poly-two+KXTHREE"
    assert summary["rules"] == "kalshi-2026-05-28+polymarket-2026-04-01+kalshi-2026-03-09"
    assert done.episodes == ("KXONE", "poly-two", "KXTHREE")
    assert done.equity["equity"].to_list()[-1] == summary["final_equity"]
    assert {"KXONE-T0", "poly-two-T1", "KXTHREE-T0"} <= set(done.fills["ticker"]) & set(done.orders["ticker"])


def test_each_market_keeps_its_least_size_and_its_fees() -> None:
    fees: dict[str, int] = {}

    class Small(Agent):
        def act(self, ctx: AgentContext) -> None:
            if ctx.step == 1:
                for market in ctx.markets():
                    for lots in (499, 500):
                        order = ctx.buy(market.ticker, YES, lots)
                        fees[f"{market.ticker} {lots}"] = -1 if order.status == "rejected" else order.fees

    made = [with_fees(quoted("KXA"), KALSHI), with_fees(quoted("poly", POLYMARKET_RULES), BY_SHARES)]
    done = run(made, Small(), BacktestSettings(cadence=SECOND))
    # At 50 cents: 7 % of a quarter of 4.99 and 5 dollars, rounded to 0.0001; 2.5 % of a quarter of 5, rounded to 0.00001; less than 5
    # shares are no order.
    assert fees == {"KXA-M-0 499": 87_400, "KXA-M-0 500": 87_500, "poly-M-0 499": -1, "poly-M-0 500": 31_250}
    assert done.outcome.fills["fee"].sum() == sum(fee for fee in fees.values() if fee > 0)


def quoted(name: str, rules: str = KALSHI_RULES, start: int = 0, settles: int = 100) -> Prepared:
    """Return a market of a hundred contracts at 50 cents on both sides that closes after 90 seconds and pays YES at `settles`."""
    events: list[Event] = [
        (start, LEVEL, 0, YES, 490, 100 * CONTRACT),
        (start, LEVEL, 0, NO, 500, 100 * CONTRACT),
        (start + 90, CLOSE, 0, 0, 0, 0),
        (start + settles, SETTLE, 0, 0, 0, MICROS),
    ]
    return part(name, tape(*events, start=start, end=start + settles), rules)


def with_fees(one: Prepared, fees: tuple[int, ...]) -> Prepared:
    return replace(one, tape=replace(one.tape, fees=np.array([fees], np.int64)))


class Spender(Agent):
    """Buy ten contracts of YES of each trading market at each decision."""

    def act(self, ctx: AgentContext) -> None:
        for market in ctx.markets():
            if market.is_active:
                ctx.buy(market.ticker, YES, 10 * CONTRACT, 50 * CENT, "ioc")


def test_a_settlement_frees_cash_for_the_other_episodes_at_its_time() -> None:
    first, second = quoted("KXA", settles=100), quoted("KXB", start=60)
    done = run([first, second], Spender(), BacktestSettings(cadence=10 * SECOND, bankroll=5 * MICROS))
    fills = done.outcome.fills[["market", "ts"]].tolist()
    # The five dollars are in the first market until second 100. Its payout of ten pays for two purchases in the second.
    assert fills[0] == (0, 0)
    assert [ticker for ticker, _ in fills] == [0, 1, 1]
    assert [at // SECOND for _, at in fills[1:]] == [100, 110]
    rejected = done.outcome.orders["status"] == Status.REJECTED
    assert rejected.sum() == len(done.outcome.orders) - 3
    assert done.outcome.pnl == 5 * MICROS + 2 * 5 * MICROS


def test_trades_of_all_episodes_are_told_by_their_time() -> None:
    def traded(name: str, *seconds: int) -> Prepared:
        one = quoted(name)
        events: list[Event] = [(at, PRINT, 0, YES, 490, 100 * (at + 1)) for at in seconds]
        book: list[Event] = [(0, LEVEL, 0, YES, 490, 10_000), (0, LEVEL, 0, NO, 500, 10_000)]
        return replace(one, tape=replace(tape(*book, *events, end=100), tickers=one.tape.tickers))

    heard: list[tuple[int, str, int]] = []

    class Hears(Agent):
        def act(self, ctx: AgentContext) -> None:
            pass

        def on_trade(self, ctx: AgentContext, trade: Any) -> None:
            heard.append((trade.time_ns // SECOND, trade.ticker, trade.lots))

    run([traded("KXB", 3, 7, 9), traded("KXA", 1, 7)], Hears(), BacktestSettings(cadence=50 * SECOND))
    assert heard == [(1, "KXA-M-0", 200), (3, "KXB-M-0", 400), (7, "KXA-M-0", 800), (7, "KXB-M-0", 800), (9, "KXB-M-0", 1000)]


def test_what_cannot_be_traded_together() -> None:
    def changed(name: str, **info: Any) -> Prepared:
        return replace(quoted(name), info=replace(quoted(name).info, **info))

    wrong: list[list[Prepared]] = [
        [],
        [quoted("KXA"), quoted("KXA")],
        [quoted("KXA"), changed("KXA", id="KXA-again")],
        [quoted("KXA"), replace(quoted("KXB"), execution="taker_only")],
        [quoted("KXA"), changed("KXB", bankroll=5)],
        [quoted("KXA"), quoted("KXB+KXC")],
    ]
    for parts in wrong:
        with pytest.raises(ConfigError):
            prepare(parts)


def test_a_series_that_several_episodes_have_is_one_series() -> None:
    def with_points(name: str, *points: tuple[int, float]) -> Prepared:
        ts, values = np.array([at for at, _ in points], np.int64), np.array([value for _, value in points])
        return replace(quoted(name), exogenous={"BTC": (ts, values)})

    joined = prepare([with_points("KXA", (1, 10.0), (2, 20.0), (3, 30.0)), with_points("KXB", (2, 20.0), (3, 30.0), (5, 50.0))])
    assert [column.tolist() for column in joined.exogenous["BTC"]] == [[1, 2, 3, 5], [10, 20, 30, 50]]
    apart = prepare([with_points("KXA", (1, 10.0)), with_points("KXB", (5, 50.0))])
    assert apart.exogenous["BTC"][0].tolist() == [1, 5]
    assert prepare([with_points("KXA", (1, 10.0)), with_points("KXB")]).exogenous["BTC"][0].tolist() == [1]
    with pytest.raises(ConfigError, match="different values of the series BTC"):
        prepare([with_points("KXA", (1, 10.0), (3, 30.0)), with_points("KXB", (2, 20.0), (3, 40.0))])


def test_the_example_of_the_page_buys_favourites_on_both_venues() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "replay.md").read_text(encoding="utf-8")
    example, _ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    example, count = re.subn(r"^episodes = .*$", "", example, flags=re.MULTILINE)
    assert count == 1, "the page loads episodes of the demo"
    favourite: list[Event] = [(0, LEVEL, 0, YES, 560, 100 * CONTRACT), (0, LEVEL, 0, NO, 400, 100 * CONTRACT), (90, CLOSE, 0, 0, 0, 0)]
    made = tape(*favourite, end=90)
    both = [
        replace(market, tape=replace(made, tickers=market.tape.tickers)) for market in (quoted("KXA"), quoted("poly", POLYMARKET_RULES))
    ]
    known: dict[str, Any] = {"episodes": [quoted("KXB"), *both]}
    exec(compile(example, "replay.md", "exec"), known)
    done = known["done"]
    assert (done.episode, done.failure) == ("KXA+KXB+poly", None)
    assert done.fills.select("ticker", "side").rows() == [("KXA-M-0", "yes"), ("poly-M-0", "yes")]
