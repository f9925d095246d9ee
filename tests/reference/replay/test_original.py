"""`pmb-2026-01` equals PredictionMarketBench to the last cent: random episodes in its format with random agents, and its documented cases."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, AgentContext, Backtest, BacktestSettings, prepare, run
from bellwether.replay.agents.builtin import Passive
from bellwether.replay.agents.compiled_maker import CompiledMarketMaker
from bellwether.replay.agents.limits import BudgetError
from bellwether.replay.agents.market_maker import MarketMaker, VectorMarketMaker
from bellwether.replay.engine.codes import Role
from bellwether.replay.episode.folder import Episode, write
from bellwether.replay.episode.import_pmb import read_pmb
from bellwether.replay.pmb import fee
from bellwether.replay.results.metrics import metrics
from bellwether.replay.units import CENT, CENT_MICROS, CONTRACT, MICROS
from tests.reference.replay.original import SECOND, Fill, Original, Row, Settled, Trade
from tests.sizes import EXAMPLES
from tests.unit.replay.episode import originals
from tests.unit.replay.episode.folders import START

TICKERS = ["KX-A", "KX-B", "KX-C"]
Call = tuple[Any, ...]


def recorded(draw: random.Random) -> tuple[list[Row], list[Trade], list[Settled]]:
    """Draw books that change a level at a time, prints that often hit them, and settlements in the middle, at the end, after it or never."""
    rows, trades, ts = [], [], START + draw.randint(0, 3) * SECOND
    shown: dict[str, dict[str, dict[int, int]]] = {ticker: {"yes": {}, "no": {}} for ticker in TICKERS}
    for _ in range(draw.randint(60, 240)):
        ts += draw.choice([0, 0, SECOND // 2, SECOND, 3 * SECOND, 20 * SECOND])
        ticker, side = draw.choice(TICKERS), draw.choice(["yes", "no"])
        book = shown[ticker]
        if draw.random() < 0.55:
            price = {"yes": 45, "no": 50}[side] - draw.randint(0, 12)
            if draw.random() < 0.02:
                book[side].clear()
            elif draw.random() < 0.5:
                book[side][price] = draw.randint(1, 120)
            else:
                book[side].pop(price, None)
            rows.append(Row(ts, ticker, list(book["yes"].items()), list(book["no"].items())))
        else:
            price = draw.choice([*book["no" if side == "yes" else "yes"], draw.randint(1, 99)])
            trades.append(Trade(ts, ticker, side, 100 - price, draw.randint(1, 150)))
    times = [draw.choice([ts, ts + 100 * SECOND, rows[len(rows) // 2].ts, None]) for _ in TICKERS]
    settled = [Settled(at, ticker, draw.choice(["YES", "NO"])) for ticker, at in zip(TICKERS, times, strict=True) if at is not None]
    return rows, trades, settled


def written(folder: Path, rows: list[Row], trades: list[Trade], settled: list[Settled]) -> Path:
    """Write the same as files of the original."""
    known = {one.ticker: {"result": one.result, "settled_ts": _iso(one.ts)} for one in settled}
    unknown = {"result": None, "settled_ts": None}
    originals.write_metadata(folder, TICKERS, {ticker: known.get(ticker, unknown) for ticker in TICKERS}, end=_iso(rows[-1].ts))
    book = [(_seconds(row.ts), number, row.ticker, row.yes, row.no) for number, row in enumerate(rows)]
    prints = [(_seconds(one.ts), str(number), one.ticker, one.taker, one.price, one.count) for number, one in enumerate(trades)]
    kind = originals.struct_of("price_cents", pa.int64())
    pq.write_table(originals.book_table(book, originals.levels_of, kind), folder / "orderbook.parquet")
    if prints:
        pq.write_table(originals.trade_table(prints), folder / "trades.parquet")
    return folder


def imported(folder: Path, rows: list[Row], trades: list[Trade], settled: list[Settled]) -> Episode:
    """Import the same as an episode."""
    return write(folder / "imported", read_pmb(written(folder / "files", rows, trades, settled), "taker"))


def _seconds(ns: int) -> float:
    return (ns - START) / SECOND


def _iso(ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()


def decisions(seed: int) -> Callable[[int], list[Call]]:
    """Draw the calls of one step: ("cancel", order) or ("place", ticker, side, action, contracts, limit in cents or None, tif)."""
    draw = random.Random(seed)

    def step(orders: int) -> list[Call]:
        calls: list[Call] = []
        for _ in range(draw.choice([0, 1, 1, 2, 4])):
            if orders and draw.random() < 0.15:
                calls.append(("cancel", draw.randrange(orders)))
                continue
            limit = draw.choice([None, *[draw.randint(30, 70)] * 3])
            tif = "ioc" if limit is None else draw.choice(["ioc", "gtc", "gtc", "gtc", "gtd", "post_only"])
            what = draw.choice(TICKERS), draw.choice(["yes", "no"]), draw.choice(["buy", "sell"])
            calls.append(("place", *what, draw.randint(1, 60), limit, tif))
        return calls

    return step


class Drawn(Agent):
    """Make the drawn calls, and record times, cash and equity in cents and listed orders of the calls, and the answers to cancels."""

    def __init__(self, step: Callable[[int], list[Call]], seen: list[tuple[Any, ...]], cancels: list[bool]) -> None:
        self._step, self._seen, self._cancels = step, seen, cancels

    def start(self, ctx: AgentContext, episode: Any) -> None:
        self._orders = 0

    def act(self, ctx: AgentContext) -> None:
        self._seen.append((ctx.now_ns, ctx.cash / CENT_MICROS, ctx.equity / CENT_MICROS, [order.id for order in ctx.resting()]))
        for name, *what in self._step(self._orders):
            if name == "cancel":
                self._cancels.append(ctx.cancel(what[0]))
                continue
            ticker, side, action, count, limit, tif = what
            price, expires = None if limit is None else limit * CENT, 2**61 if tif == "gtd" else None
            self._orders += getattr(ctx, action)(ticker, side, count * CONTRACT, price, tif, expires).id >= 0


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_runs_equal_the_original(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows, trades, settled = recorded(draw)
    cadence, reconciled, taker_only = draw.choice([1, 5, 17, 60]) * SECOND, seed % 2 == 1, seed % 4 == 3
    step = decisions(seed)

    def act(original: Original) -> None:
        for name, *what in step(original.orders):
            getattr(original, name)(*what)

    original = Original(START, cadence, act, reconciled=reconciled, taker_only=taker_only).run(rows, trades, settled)
    seen: list[tuple[Any, ...]] = []
    cancels: list[bool] = []
    settings = BacktestSettings(
        cadence=cadence,
        queue="reconciled" if reconciled else "trade_only",
        execution="taker_only" if taker_only else "maker_taker",
    )
    episode = imported(tmp_path, rows, trades, settled)
    backtest = run(episode, Drawn(decisions(seed), seen, cancels), settings)
    outcome, found = backtest.outcome, metrics(backtest)
    assert backtest.failure is None
    assert backtest.rules.name == "pmb-2026-01"
    assert (seen, cancels) == (original.calls, original.cancels)
    assert _fills(outcome.fills) == original.fills
    assert [(row["ts"], row["equity"] / CENT_MICROS) for row in outcome.samples] == original.curve[1:]
    assert (outcome.cash, outcome.equity) == (original.cash * CENT_MICROS, original.equity() * CENT_MICROS)
    assert (found["orders"], found["contracts"], found["fees"] * 100) == (original.orders, original.contracts, original.fees)
    assert (found["fill_ratio"], found["max_drawdown"]) == (original.fill_ratio(), original.drawdown())
    assert (found["slippage"] or 0) * 100 == original.slippage
    assert sum(backtest.market_pnl["pnl"]) == found["pnl"]
    assert found["sharpe_annualised"] == (None if original.sharpe() is None else pytest.approx(original.sharpe(), rel=1e-9))
    assert not (taker_only and any(fill.role == "maker" for fill in original.fills))


def _fills(rows: Any) -> list[Fill]:
    """Return the engine's fills in cents and contracts."""
    return [
        Fill(
            row["ts"],
            TICKERS[row["market"]],
            ("yes", "no")[row["side"]],
            ("buy", "sell")[row["action"]],
            row["price"] / CENT,
            row["lots"] / CONTRACT,
            row["fee"] / CENT_MICROS,
            ("taker", "maker")[row["role"]],
        )
        for row in rows
    ]


# Documented cases: a book with YES bids 45 x 100 and 40 x 200, NO bids 52 x 50 and 50 x 150


A = [(45, 100), (40, 200)], [(52, 50), (50, 150)]
MINUTE = 60 * SECOND


def at(minutes: float, yes: Any = A[0], no: Any = A[1]) -> Row:
    return Row(START + int(minutes * MINUTE), "KX-A", yes, no)


def printed(minutes: float, taker: str, price: int, count: int) -> Trade:
    return Trade(START + int(minutes * MINUTE), "KX-A", taker, price, count)


class Scripted(Agent):
    """Make the calls that a function of (context, number of the step) contains."""

    def __init__(self, script: Callable[[AgentContext, int], None]) -> None:
        self._script = script

    def act(self, ctx: AgentContext) -> None:
        self._script(ctx, ctx.step)


def play(folder: Path, script: Callable[[AgentContext, int], Any], rows: list[Row], *more: Any, **settings: Any) -> Backtest:
    """Replay rows, and trades and settlements in `more`, with an agent that makes the calls of `script`."""

    def act(ctx: AgentContext, step: int) -> None:
        script(ctx, step)

    trades, settled = ([event for event in more if isinstance(event, kind)] for kind in (Trade, Settled))
    episode = imported(folder, rows, trades, settled)
    backtest = run(episode, Scripted(act), BacktestSettings(**{"cadence": 5 * SECOND, **settings}))
    assert backtest.failure is None
    return backtest


def fills_of(backtest: Backtest) -> list[tuple[float, float, float]]:
    """Return price in cents, contracts and fee in cents of each fill."""
    return [(fill.price, fill.count, fill.fee) for fill in _fills(backtest.outcome.fills)]


#: Order, the fills at once, and status and reason afterwards.
TAKERS: list[tuple[Call, list[tuple[int, int, int]], str, str | None]] = [
    (("yes", "buy", None, 10, "ioc"), [(48, 10, 18)], "filled", None),
    (("yes", "sell", None, 50, "ioc"), [(45, 50, 87)], "filled", None),
    (("yes", "sell", None, 500, "ioc"), [(45, 100, 174), (40, 200, 337)], "cancelled", "remainder"),
    (("no", "buy", None, 150, "ioc"), [(55, 100, 174), (60, 50, 85)], "filled", None),
    (("yes", "buy", 50, 10, "ioc"), [(48, 10, 18)], "filled", None),
    (("yes", "buy", 49, 80, "ioc"), [(48, 50, 88)], "cancelled", "remainder"),
    (("yes", "buy", 49, 80, "gtc"), [(48, 50, 88)], "cancelled", "remainder"),
    (("yes", "buy", 48, 10, "post_only"), [], "rejected", "would_cross"),
    (("yes", "buy", 47, 10, "post_only"), [], "resting", None),
    (("yes", "buy", 47, 10, "ioc"), [], "cancelled", "remainder"),
    (("yes", "buy", 47, 10, "gtd"), [], "cancelled", "remainder"),
    (("yes", "buy", 40, 10, "fok"), [], "rejected", "bad_request"),
]


@pytest.mark.parametrize(("order", "fills", "status", "reason"), TAKERS)
def test_orders_that_arrive(tmp_path: Path, order: Call, fills: list[Any], status: str, reason: str | None) -> None:
    side, action, limit, count, tif = order

    def script(ctx: AgentContext, step: int) -> None:
        expires = 2**61 if tif == "gtd" else None
        sent = getattr(ctx, action)("KX-A", side, count * CONTRACT, None if limit is None else limit * CENT, tif, expires)
        assert (sent.status, sent.reason) == (status, reason)
        assert (ctx.cash, ctx.resting()) == (1_000 * MICROS, []), "as of the start of the step"

    backtest = play(tmp_path, script, [at(0)])
    assert fills_of(backtest) == fills


def test_own_fills_consume_nothing_and_slip_from_the_middle(tmp_path: Path) -> None:
    def script(ctx: AgentContext, step: int) -> None:
        for _ in range(2):
            ctx.buy("KX-A", "yes", 50 * CONTRACT)

    backtest = play(tmp_path, script, [at(0)])
    assert fills_of(backtest) == [(48, 50, 88)] * 2
    # 2 x (50 x 48 - int(50 x 46.5)) cents.
    assert metrics(backtest)["slippage"] == Decimal("1.50")


def test_a_market_order_into_an_empty_side_is_no_rejection_and_one_without_a_book_is_not_logged(tmp_path: Path) -> None:
    def script(ctx: AgentContext, step: int) -> None:
        assert ctx.buy("KX-A", "yes", CONTRACT).status == "cancelled"
        assert (ctx.buy("KX-B", "yes", CONTRACT).id, ctx.market("KX-B").status) == (-1, "no_book")

    backtest = play(tmp_path, script, [at(0, no=[])])
    assert (metrics(backtest)["orders"], metrics(backtest)["fill_ratio"]) == (1, 1.0)


def test_taker_only_rejects_what_does_not_cross(tmp_path: Path) -> None:
    def script(ctx: AgentContext, step: int) -> None:
        assert ctx.buy("KX-A", "yes", 10 * CONTRACT, 40 * CENT).reason == "would_not_cross"

    play(tmp_path, script, [at(0)], execution="taker_only")


def rest(count: int = 10, price: int = 45, action: str = "buy") -> Callable[[AgentContext, int], None]:
    """Return a script that sends one order for YES that rests, in the first step."""

    def script(ctx: AgentContext, step: int) -> None:
        if step == 0:
            getattr(ctx, action)("KX-A", "yes", count * CONTRACT, price * CENT)

    return script


#: Events after a purchase of 10 YES at 45 rests behind 100 displayed contracts, queue mode, and the fills as maker.
QUEUES: dict[str, tuple[list[Any], str, list[tuple[int, int, int]]]] = {
    "a print takes what is ahead": ([printed(1, "no", 55, 60)], "trade_only", []),
    "a second one reaches the order": ([printed(1, "no", 55, 60), printed(2, "no", 55, 60)], "trade_only", [(45, 10, 5)]),
    "only prints at its own price do": ([printed(1, "no", 56, 999), printed(1, "no", 54, 999)], "trade_only", []),
    "prints of the other side do not": ([printed(1, "yes", 55, 500)], "trade_only", []),
    "a smaller row shows nothing": ([at(1, [(45, 30)]), printed(2, "no", 55, 60)], "trade_only", []),
    "a smaller row caps what is ahead": ([at(1, [(45, 30)]), at(2, [(45, 200)]), printed(3, "no", 55, 60)], "reconciled", [(45, 10, 5)]),
    "a book that crosses fills nothing": ([at(1, [], [(56, 10)])], "trade_only", []),
    "two prints pay two fees": ([printed(1, "no", 55, 104), printed(2, "no", 55, 6)], "trade_only", [(45, 4, 2), (45, 6, 3)]),
    "settlement cancels": ([Settled(START + MINUTE, "KX-A", "NO"), printed(2, "no", 55, 200)], "trade_only", []),
    "a print at the time of the order counts": ([printed(0, "no", 55, 110)], "trade_only", [(45, 10, 5)]),
}


@pytest.mark.parametrize("case", QUEUES)
def test_queues(tmp_path: Path, case: str) -> None:
    events, queue, fills = QUEUES[case]
    rows = [at(0), *(event for event in events if isinstance(event, Row))]
    backtest = play(tmp_path, rest(), rows, *events, queue=queue)
    assert fills_of(backtest) == fills
    assert metrics(backtest)["fill_ratio"] == (0.5 if len(fills) == 2 else 1.0), "each fill as maker counts the whole order"


def test_an_order_inside_the_spread_waits_for_prints_at_its_price_and_a_second_one_behind_the_first(tmp_path: Path) -> None:
    def script(ctx: AgentContext, step: int) -> None:
        if step in (0, 1):
            ctx.buy("KX-A", "yes", 10 * CONTRACT, 46 * CENT)
            ctx.buy("KX-A", "yes", (10 if step == 0 else 5) * CONTRACT, 45 * CENT)

    backtest = play(tmp_path, script, [at(0), at(1, [(45, 500)])], printed(2, "no", 55, 112))
    assert fills_of(backtest) == [(45, 10, 5), (45, 2, 1)]


def test_a_resting_sale_is_booked_at_the_price_of_its_bid(tmp_path: Path) -> None:
    backtest = play(tmp_path, rest(price=60, action="sell"), [at(0, no=[])], printed(1, "yes", 60, 10))
    assert (fills_of(backtest), backtest.outcome.cash) == ([(40, 10, 5)], (100_000 + 395) * CENT_MICROS)


def test_a_filled_order_stays_listed_and_its_cancel_succeeds_once(tmp_path: Path) -> None:
    listed: list[tuple[list[int], bool]] = []

    def script(ctx: AgentContext, step: int) -> None:
        rest()(ctx, step)
        listed.append(([order.id for order in ctx.resting()], step > 0 and ctx.cancel(0)))

    play(tmp_path, script, [at(0), at(2), at(3)], printed(1, "no", 55, 110))
    assert listed == [([], False), ([0], True), ([], False)]


def test_calls_follow_book_rows_and_positions_after_a_settlement_never_settle(tmp_path: Path) -> None:
    times: list[int] = []

    def script(ctx: AgentContext, step: int) -> None:
        times.append((ctx.now_ns - START) // SECOND)
        if step in (0, 2):
            ctx.buy("KX-A", "yes", 10 * CONTRACT)

    rows = [at(seconds / 60, [(3, 10)] if seconds < 11 else []) for seconds in (0, 3, 5, 9, 10, 11)]
    backtest = play(tmp_path, script, rows, Settled(START + 7 * SECOND, "KX-A", "NO"))
    assert times == [0, 5, 10]
    # Without a bid the ten contracts of the last call are worth 50 cents each, but not at the last point of the curve.
    fees, prices = 2 * 18, 2 * 480
    assert backtest.outcome.equity == (100_000 - prices - fees + 500) * CENT_MICROS
    assert backtest.outcome.samples["equity"][-1] == (100_000 - prices - fees) * CENT_MICROS
    assert metrics(backtest)["unsettled"]


def test_the_101st_tool_call_of_a_step_raises(tmp_path: Path) -> None:
    made: list[int] = []

    def script(ctx: AgentContext, step: int) -> None:
        with pytest.raises(BudgetError):
            for number in range(200):
                ctx.buy("KX-A", "yes", CONTRACT)
                made.append(number)

    assert len(play(tmp_path, script, [at(0), at(1)]).outcome.orders) == len(made) == 200


class Waker(Agent):
    """Agent with a callback."""

    def act(self, ctx: AgentContext) -> None:
        """Do nothing."""

    def on_fill(self, ctx: AgentContext, fill: Any) -> None:
        """Do nothing."""


def test_agents_and_settings_that_the_original_does_not_have_are_refused(tmp_path: Path) -> None:
    episode = imported(tmp_path, [at(0)], [], [])
    for agent, settings, isolated, message in (
        (CompiledMarketMaker, {}, False, "is compiled"),
        (Waker, {}, False, "has callbacks"),
        (Passive, {}, True, "isolated agents"),
        (Passive, {"queue": "optimistic"}, False, "queue is optimistic; choose one of trade_only, reconciled"),
        (Passive, {"data_latency": SECOND}, False, "data_latency is 1000000000"),
        (Passive, {"queues": 3}, False, "queues is 3"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(episode, agent, BacktestSettings(**settings), isolated=isolated)


def test_several_episodes_at_once_are_refused(tmp_path: Path) -> None:
    one = prepare(imported(tmp_path, [at(0)], [], []))
    markets = tuple(replace(market, ticker=f"OTHER-{market.ticker}") for market in one.info.markets)
    other = replace(one, info=replace(one.info, id="OTHER", markets=markets))
    with pytest.raises(ConfigError, match="KXT has the rules pmb-2026-01, which replay one episode"):
        prepare([one, other])


@pytest.mark.parametrize("maker", [MarketMaker, VectorMarketMaker])
def test_quotes_are_replaced_when_their_price_changes(tmp_path: Path, maker: type[MarketMaker]) -> None:
    agent = maker(spread_cents=6, skew_cents=0)
    backtest = play(tmp_path, lambda ctx, step: agent.act(ctx), [at(0), at(1), at(2, [(43, 100)])])
    orders = backtest.orders.select("side", "price", "status").rows()
    assert [(side, float(price), status) for side, price, status in orders] == [
        ("yes", 0.43, "cancelled"),
        ("no", 0.50, "cancelled"),
        ("yes", 0.42, "resting"),
        ("no", 0.51, "resting"),
    ]


@pytest.mark.parametrize(("role", "rate", "cases"), [(Role.TAKER, 10_000, 45), (Role.MAKER, 40_000, 19)])
def test_float_fees_overcharge_a_cent_in_known_cases(role: Role, rate: int, cases: int) -> None:
    sizes = [(count, price) for count in range(1, 101) for price in range(1, 100)]
    exact = [-(-7 * count * price * (100 - price) // rate) for count, price in sizes]
    found = [fee(role, count * CONTRACT, price * CENT) // CENT_MICROS for count, price in sizes]
    differences = [more - less for more, less in zip(found, exact, strict=True)]
    assert set(differences) == {0, 1} and sum(differences) == cases
