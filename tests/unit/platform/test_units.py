"""Type checkers distinguish the units of prices, sizes and money, and accept the agents of the documentation without casts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether import replay
from bellwether.arena.units import share_value, shares_for
from bellwether.errors import SchemaError
from bellwether.replay.agents.template import write_agent
from bellwether.replay.units import CENT, CONTRACT, centicents, cost
from bellwether.units import CentiCents, Lots, MicroDollars, MicroShares, SharePrice

ROOT = Path(__file__).resolve().parents[3]

#: A comment on each wrong line states its error code.
WRONG = """
from decimal import Decimal

from bellwether.arena import Bet, Level, Limits, Methodology, Position, SharePrice
from bellwether.arena.units import percent_text, share_value, shares_for
from bellwether.recordings.books import parse_price, parse_size
from bellwether.replay import YES, AgentContext, Backtest, CentiCents, Fill, Lots, Market, MicroDollars, OrderUpdate, cents, contracts
from bellwether.replay.episode_builder.messages import Trade
from bellwether.replay.engine import Session
from bellwether.replay.rules import RuleSet
from bellwether.replay.units import centicents, cost, dollars, lots


def looks(ctx: AgentContext, market: Market, fill: Fill, update: OrderUpdate) -> None:
    price: CentiCents = fill.lots  # assignment
    size: Lots = market.yes_position
    size = fill.price  # assignment
    money: MicroDollars = ctx.cash
    money = fill.price * fill.lots  # assignment
    money = cost(fill.price, fill.lots)
    size = update.remaining
    size = update.price  # assignment
    price, size = ctx.book("A").yes_asks[0]
    size, price = ctx.book("A").yes_asks[0]  # assignment


def trades(session: Session, market: Market) -> None:
    session.place(0, YES, 0, cents(45), contracts(10))
    session.place(0, YES, 0, contracts(10), cents(45))  # arg-type
    session.place(0, YES, 0, session.cash, lots(1))  # arg-type
    session.amend(0, cents(45), 1000)  # arg-type
    cost(contracts(10), cents(45))  # arg-type
    dollars(centicents("0.45"))  # arg-type
    dollars(session.equity())


def books(rules: RuleSet, backtest: Backtest, trade: Trade) -> Decimal:
    paid: MicroDollars = cost(trade.price, trade.lots)
    paid = trade.price  # assignment
    paid = backtest.outcome.pnl[0]
    paid = backtest.outcome.pnl  # assignment
    level: CentiCents = parse_price("0.45")  # assignment
    count: Lots = parse_size("10")
    return dollars(rules.fee_unit) + dollars(rules.lot_step)  # arg-type


def bets(rules: Methodology, position: Position, level: Level) -> None:
    Bet("m", "YES", rules.smallest_bet)
    Bet("m", "YES", level.price)  # arg-type
    Limits.of(rules, position.shares)  # arg-type
    share_value(position.shares, level.price)
    share_value(level.price, position.shares)  # arg-type
    shares_for(position.cost, level.price)
    shares_for(position.shares, level.price)  # arg-type
    percent_text(position.cost)  # arg-type
    price: SharePrice = position.average
    price = level.shares  # assignment
"""

PLAIN = """
from bellwether.replay import BUY, CENT, CONTRACT, MICROS, NO, YES, Agent, AgentContext, Backtest, BacktestSettings, Fill, Trade, cents, contracts, run
from bellwether.replay.tape import Tape


class Plain(Agent):
    api = 3

    def __init__(self, *, size: int = 10, margin: float = 1) -> None:
        self.size, self.margin = contracts(size, "size"), cents(margin, "margin")

    def act(self, ctx: AgentContext) -> None:
        for market in ctx.markets():
            bid, ask = market.yes_bid, market.yes_ask
            if bid is None or ask is None or ctx.available < 10 * MICROS:
                continue
            ctx.buy(market.ticker, YES, 10 * CONTRACT, 45 * CENT)
            ctx.buy(market.ticker, YES, self.size // 2, min(bid + CENT, ask - self.margin))
            ctx.sell(market.ticker, NO, min(market.no_position, 5 * CONTRACT))
            order = ctx.place(market.ticker, YES, BUY, bid, market.yes_bid_lots)
            ctx.amend(order, bid - 1, order.remaining - 1)
            ctx.quote(market.ticker, bid - CENT, ask + CENT, 100)
            self.worth = sum(price * lots for price, lots in ctx.book(market.ticker).yes_bids)

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        ctx.buy(fill.ticker, NO, fill.lots, 98 * CENT - fill.price)

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        self.last: int = trade.yes_price
        self.last += 5


def traded(tape: Tape) -> Backtest:
    return run(tape, Plain(size=20), BacktestSettings(bankroll=500 * MICROS))
"""

#: Arrays are not needed here, and their stubs take longer to load than everything else.
CONFIG = """
[mypy]
strict = true
follow_imports = silent
ignore_missing_imports = true

[mypy-numpy.*,numba.*,llvmlite.*,polars.*,pyarrow.*,pydantic.*,altair.*,orjson.*]
follow_imports = skip
follow_imports_for_stubs = true
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """Return line and code of each error that mypy reports, by file."""
    folder = tmp_path_factory.mktemp("units")
    (folder / "wrong.py").write_text(WRONG)
    (folder / "plain.py").write_text(PLAIN)
    write_agent("my-new-maker", folder / "my_new_maker.py")
    (folder / "mypy.ini").write_text(CONFIG)
    files = [str(folder / name) for name in ("wrong.py", "plain.py", "my_new_maker.py")]
    options = ["--config-file", str(folder / "mypy.ini"), "--cache-dir", os.devnull, "--no-error-summary", "--hide-error-context"]
    done = subprocess.run([sys.executable, "-m", "mypy", *options, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    found: dict[str, list[tuple[int, str]]] = {Path(file).name: [] for file in files}
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r".*?(\w+\.py):(\d+): error: .*\[([a-z-]+)\]", line):
            found[match[1]].append((int(match[2]), match[3]))
        else:
            assert ": note: " in line, line
    return found


def test_a_price_is_no_size_and_no_money(complaints: dict[str, list[tuple[int, str]]]) -> None:
    wrong = {(number, line.rpartition("  # ")[2]) for number, line in enumerate(WRONG.splitlines(), 1) if "  # " in line}
    assert set(complaints["wrong.py"]) == wrong


@pytest.mark.parametrize("file", ["plain.py", "my_new_maker.py"])
def test_an_agent_needs_no_cast(complaints: dict[str, list[tuple[int, str]]], file: str) -> None:
    assert complaints[file] == []


def test_products_have_their_unit() -> None:
    assert cost(CentiCents(45 * CENT), Lots(10 * CONTRACT)) == 4_500_000
    assert share_value(MicroShares(10_000_000), SharePrice(450_000)) == 4_500_000
    assert shares_for(MicroDollars(4_500_000), SharePrice(450_000)) == 10_000_000


def test_a_price_finer_than_a_hundredth_of_a_cent_is_refused() -> None:
    assert centicents("0.0085") == 85 and centicents("0.9975") == 9975
    with pytest.raises(SchemaError, match=r"a price: 0\.00851 is finer than a hundredth of a cent"):
        centicents("0.00851")


def test_mills_are_a_deprecated_name_of_the_unit() -> None:
    with pytest.warns(DeprecationWarning, match=r"integers of \$0\.0001"):
        assert replay.Mills is CentiCents
