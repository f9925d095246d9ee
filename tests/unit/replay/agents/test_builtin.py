"""Built-in agents behave as their sources describe."""

from __future__ import annotations

import random
import statistics
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.replay import BUY, CENT, CONTRACT, DOLLAR, MICROS, NO, SECOND, SELL, YES, Agent, Backtest, run
from bellwether.replay.agents.agent import derive_seed
from bellwether.replay.agents.builtin import BollingerBands, BuyAndHold, Momentum, Pairs, Passive, RandomAgent, SpreadCapture
from bellwether.replay.agents.compiled_maker import CompiledMarketMaker
from bellwether.replay.agents.market_maker import MarketMaker, VectorMarketMaker
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Role, Tif
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, Tape
from bellwether.replay.units import MILL
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.agents.scenes import TRADE, market, settings, tape, two_markets
from tests.unit.replay.results.tapes import Event

#: side, action, price, lots, time in force
SENT = ("side", "action", "price", "count", "tif")
MINUTE = 60 * SECOND


def sent(backtest: Backtest, *columns: str) -> list[list[int]]:
    """Return the orders sent, without rejected ones."""
    assert backtest.failure is None, backtest.failure
    orders = backtest.outcome.orders
    return [list(row) for row in orders[orders["status"] != codes.Status.REJECTED][list(columns or SENT)].tolist()]


def path(middles: list[int], half: int = CENT, size: int = 10_000 * CONTRACT) -> Tape:
    """Return a market with these midpoints, one per minute."""
    events: list[Event] = []
    shown: list[tuple[int, int]] = []
    for minute, middle in enumerate(middles):
        wanted = [(YES, middle - half), (NO, DOLLAR - middle - half)]
        events += [(60 * minute, LEVEL, 0, side, price, 0) for side, price in shown if (side, price) not in wanted]
        events += [(60 * minute, LEVEL, 0, side, price, size) for side, price in wanted if (side, price) not in shown]
        shown = wanted
    last = 60 * len(middles) - 1
    return tape(*events, (last, CLOSE, 0, 0, 0, 0), end=last)


def played(agent: Agent, middles: list[int], **changed: Any) -> Backtest:
    return run(path(middles), agent, settings(cadence=MINUTE, **changed))


def test_passive_sends_nothing() -> None:
    backtest = run(market(), Passive(), settings())
    assert (sent(backtest), backtest.outcome.pnl) == ([], 0)


@pytest.mark.parametrize("latency", [0, 2 * SECOND])
def test_pairs_pays_for_the_other_side_as_soon_as_one_is_filled(latency: int) -> None:
    # The trade at 90 seconds fills the YES at 45 cents. A print of NO at 53 completes the pair.
    events = (TRADE, (150, PRINT, 0, NO, 53 * CENT, 5 * CONTRACT))
    backtest = run(market(*events), Pairs(size=5, most_cents=98), settings(order_latency=latency))
    assert sent(backtest)[:4] == [
        [YES, BUY, 45 * CENT, 5 * CONTRACT, Tif.POST_ONLY],
        [NO, BUY, 52 * CENT, 5 * CONTRACT, Tif.POST_ONLY],
        [NO, BUY, 53 * CENT, 5 * CONTRACT, Tif.GTC],
        [YES, BUY, 45 * CENT, 5 * CONTRACT, Tif.POST_ONLY],
    ]
    orders, fills = backtest.outcome.orders, backtest.outcome.fills
    assert orders["sent"][:4].tolist() == [0, 0, 90 * SECOND, 180 * SECOND]
    assert orders["status"][:3].tolist() == [codes.Status.FILLED, codes.Status.CANCELLED, codes.Status.FILLED]
    assert fills["ts"].tolist() == [90 * SECOND, 150 * SECOND]
    # A dollar for 98 cents, five times, less the venue's maker fees.
    assert backtest.outcome.pnl == 5 * 20_000 - backtest.outcome.fees


def test_pairs_takes_its_bids_back_where_a_pair_costs_too_much() -> None:
    dearer = (90, LEVEL, 0, YES, 47 * CENT, 10 * CONTRACT)
    backtest = run(market(dearer), Pairs(size=5, most_cents=98), settings())
    assert len(sent(backtest)) == 2
    assert set(backtest.outcome.orders["ended"].tolist()) == {120 * SECOND}


def test_buy_and_hold_counts_orders_that_fill_on_their_way() -> None:
    backtest = run(market(), BuyAndHold(size=20), settings(order_latency=90 * SECOND))
    assert sent(backtest, "count", "filled") == [[20 * CONTRACT, 20 * CONTRACT]]


def test_buy_and_hold_buys_what_is_offered_until_it_has_enough() -> None:
    backtest = run(market((90, LEVEL, 0, NO, 52 * CENT, 30 * CONTRACT)), BuyAndHold(size=70), settings())
    assert sent(backtest) == [[YES, BUY, 48 * CENT, 70 * CONTRACT, Tif.IOC], [YES, BUY, 50 * CENT, 20 * CONTRACT, Tif.IOC]]
    assert backtest.outcome.realised == 70 * MICROS - 50 * 480_000 - 20 * 500_000


def drawn(seed: int, steps: int, probability: float, most: int, largest: int) -> list[list[int]]:
    """Return the orders of RandomAgent in one deep market that is always quoted, computed from its description."""
    rng = random.Random(derive_seed("", "random-agent", seed))
    held, orders = [0, 0], []
    for _ in range(steps):
        if rng.random() > probability:
            continue
        rng.choice([0])
        side = YES if rng.random() < 0.5 else NO
        action = BUY if held[side] < most else SELL
        size = rng.randint(1, largest)
        orders.append([side, action, 0, size * CONTRACT, Tif.IOC])
        bought = side if action == BUY else 1 - side
        held[bought] += size
        netted = min(held)
        held = [held[YES] - netted, held[NO] - netted]
    return orders


def test_random_agent_sends_what_its_description_says() -> None:
    seed = 1
    agent = RandomAgent(trade_probability=0.6, max_position=2, max_size=3)
    orders = sent(played(agent, [50 * CENT] * 200, seed=seed))
    assert orders == drawn(seed, 200, 0.6, 2, 3)
    assert {order[1] for order in orders} == {BUY, SELL}


def test_random_agent_does_not_trade_with_less_than_a_dollar() -> None:
    assert sent(played(RandomAgent(trade_probability=1), [50 * CENT] * 20, bankroll=MICROS - 1)) == []


def test_momentum_buys_a_rise_and_sells_a_fall_of_the_threshold() -> None:
    agent = Momentum(lookback=3, threshold_cents=3, max_position=2)
    orders = sent(
        played(
            agent,
            [cents * CENT for cents in (40, 41, 42, 43, 45, 48, 47, 45, 44, 43, 43, 43)],
        ),
        *SENT,
        "sent",
    )
    minutes = [(action, size // CONTRACT, at // MINUTE) for _, action, price, size, tif, at in orders if (price, tif) == (0, Tif.IOC)]
    assert minutes == [(BUY, 1, 4), (BUY, 1, 5), (SELL, 1, 7), (SELL, 1, 8)]


def test_momentum_buys_only_with_twice_the_price_in_cash() -> None:
    rise = [40 * CENT, 43 * CENT, 46 * CENT]
    assert len(sent(played(Momentum(lookback=2), rise, bankroll=2 * 440_000))) == 1
    assert sent(played(Momentum(lookback=2), rise, bankroll=2 * 440_000 - 1)) == []


def test_spread_capture_buys_one_contract_where_the_spread_is_wide() -> None:
    backtest = run(two_markets(), SpreadCapture(), settings())
    assert sent(backtest, "market", *SENT) == [[1, YES, BUY, 40 * CENT, CONTRACT, Tif.IOC]]
    assert sent(run(two_markets(), SpreadCapture(min_spread_cents=11), settings())) == []


def crossings(middles: list[int], period: int, k: float) -> list[tuple[int, int]]:
    """Return (minute, cheap side) of every crossing of the bands, computed with the statistics module."""
    places, found = [], []
    for minute in range(len(middles)):
        window = middles[max(0, minute + 1 - period) : minute + 1]
        mean, deviation = statistics.fmean(window), statistics.pstdev(window)
        outside = len(window) == period and abs(middles[minute] - mean) > k * deviation + 1e-9
        places.append(0 if not outside else 1 if middles[minute] > mean else -1)
        if places[-1] and (minute == 0 or places[-2] == 0):
            found.append((minute, YES if places[-1] < 0 else NO))
    return found


@pytest.mark.parametrize(("seed", "period", "k"), [(1, 20, 2), (2, 10, 1.5)])
def test_bollinger_bands_trade_on_crossings_only(seed: int, period: int, k: float) -> None:
    rng = random.Random(seed)
    middles = [50 * CENT]
    for _ in range(300):
        middles.append(min(90 * CENT, max(10 * CENT, middles[-1] + CENT * rng.choice((-3, -1, -1, 0, 0, 1, 1, 3)))))
    backtest = played(BollingerBands(period=period, k=k), middles, bankroll=100_000 * MICROS)
    found = crossings(middles, period, k)
    orders = sent(backtest, *SENT, "sent")
    assert [(at // MINUTE, side if action == BUY else 1 - side) for side, action, *_, at in orders] == found
    assert len(found) >= 3
    assert {(size, tif) for _, _, _, size, tif, _ in orders} <= {(10 * CONTRACT, Tif.GTC)}
    fills = backtest.outcome.fills
    assert not (fills["role"] == Role.TAKER).any(), "its orders make"


def test_bollinger_bands_withdraw_when_the_middle_is_back() -> None:
    middles = [50 * CENT, 51 * CENT] * 10 + [44 * CENT, 45 * CENT, 48 * CENT, 51 * CENT, 51 * CENT]
    orders = played(BollingerBands(), middles).outcome.orders
    assert orders[["price", "sent", "ended"]].tolist() == [(43 * CENT, 20 * MINUTE, 23 * MINUTE)]


def test_market_maker_quotes_around_the_middle_against_its_inventory() -> None:
    agent = MarketMaker(spread_cents=6, size=10, max_position=15, skew_cents=1)
    sold = (90, PRINT, 0, YES, 42 * CENT, 50 * CONTRACT)
    backtest = run(market(sold), agent, settings(cadence=MINUTE))
    orders = backtest.outcome.orders[["side", "price", "sent", "filled"]].tolist()
    # Midpoint 46.5: 43.5 rounded down to 43, and 49.5 rounded up to 50; a cent lower after ten contracts.
    assert orders[:2] == [(YES, 43 * CENT, 0, 10 * CONTRACT), (NO, 50 * CENT, 0, 0)]
    assert orders[2:4] == [(YES, 42 * CENT, 120 * SECOND, 0), (NO, 51 * CENT, 120 * SECOND, 0)]


@pytest.mark.parametrize("seed", range(2))
def test_the_three_market_makers_send_the_same_orders(seed: int) -> None:
    shape = Shape(tickers=3, instants=800, tick=(CENT, MILL)[seed % 2], crossed=0.0)
    parameters = {"spread_cents": (1, 0.2)[seed % 2], "size": 3, "max_position": 9, "skew_cents": 0.7, "tick_cents": (1, 0.1)[seed % 2]}
    found = [
        run(random_tape(seed, shape), cls(**parameters), settings(cadence=3 * SECOND, bankroll=10**11))
        for cls in (MarketMaker, VectorMarketMaker, CompiledMarketMaker)
    ]
    assert [one.failure for one in found] == [None] * 3
    assert len(found[0].outcome.fills) > 20
    assert len({one.outcome.digest() for one in found}) == 1


def test_parameters_that_cannot_be_traded_are_refused() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (BollingerBands, {"period": 1}),
        (BollingerBands, {"k": 0}),
        (BollingerBands, {"size": 0.001}),
    ]
    wrong += [(Pairs, {"most_cents": 100})]
    for cls in (MarketMaker, VectorMarketMaker, CompiledMarketMaker):
        wrong += [(cls, {"size": 0}), (cls, {"tick_cents": 0}), (cls, {"spread_cents": -1}), (cls, {"max_position": "many"})]
    for cls, params in wrong:
        with pytest.raises(ConfigError):
            cls(**params)
