"""The ledger: all cash movements, positions and balances, computed from agents, trades and settlements (facts). No other module computes
balances.

Facts are processed in the order in which they became known. At equal times trades come first, by decision and leg, then settlements by market:
a decision at an instant used only what was known before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from typing import Any, NamedTuple

from bellwether.arena.account import Account, Position, PositionStatus
from bellwether.arena.facts import Agent, Result, Settlement, Trade
from bellwether.arena.identity import decision_of_trade
from bellwether.arena.market import fold_case
from bellwether.arena.units import share_value
from bellwether.units import MicroDollars, MicroShares


class LedgerKind(StrEnum):
    """Kind of a ledger entry. A negative SETTLE or REFUND takes back the payment of a settlement that was corrected."""

    BUY = "BUY"
    SELL = "SELL"
    FEE = "FEE"
    SETTLE = "SETTLE"
    REFUND = "REFUND"


_new = tuple.__new__
_KINDS = {"BUY": LedgerKind.BUY, "SELL": LedgerKind.SELL}


class LedgerEntry(NamedTuple):
    """One cash movement and the resulting balances. Money is micro-dollars, shares are micro-shares.

    number: from 1 for each agent. amount: negative if the agent pays. cash: balance afterwards. shares, cost: of the open position afterwards;
    0 once settled. corrects: whether it reverses an earlier payment.
    """

    agent_id: str
    number: int
    known_at: datetime
    kind: LedgerKind
    amount: MicroDollars
    cash: MicroDollars
    market_id: str
    position_id: str
    side: str
    shares: MicroShares
    cost: MicroDollars
    trade_id: str | None = None
    corrects: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated rule of the ledger. where: identifier of the account, entry, trade, position or market. found: the wrong values."""

    rule: str
    where: str
    found: str


@dataclass
class Ledger:
    """All accounts and cash movements as of an instant.

    bets: BUY trades by market, in order of time. settlements: settlement in force by (methodology, market), in order of time. violations: facts
    that could not be booked and had no effect.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    entries: list[LedgerEntry] = field(default_factory=list)
    bets: dict[str, list[Trade]] = field(default_factory=dict)
    settlements: dict[tuple[str, str], Settlement] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    _holders: dict[str, list[Position]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _trades: set[str] = field(default_factory=set)

    def open_account(self, agent: Agent) -> None:
        """Open the account of an agent. A second account of the same agent is recorded as a violation."""
        if agent.agent_id in self.accounts:
            self.violations.append(Violation("one account per agent", agent.agent_id, "it is listed twice"))
            return
        self.accounts[agent.agent_id] = Account.of(agent)

    def trade(self, trade: Trade) -> None:
        """Book a trade. A trade that cannot be booked has no effect and is recorded as a violation."""
        account = self.accounts.get(trade.agent_id)
        problem = self._explain_problem(trade, account)
        if problem is not None or account is None:
            self.violations.append(Violation("every trade can be booked", trade.trade_id, problem or "the agent is unknown"))
            return
        self._trades.add(trade.trade_id)
        position = account.book(trade)
        if position.position_id == trade.trade_id:
            self._holders.setdefault(trade.market_id, []).append(position)
        if trade.action == "BUY":
            self.bets.setdefault(trade.market_id, []).append(trade)
        amount, fee = (-trade.amount if trade.action == "BUY" else trade.amount), trade.fee
        self._add_entry(
            account, trade.executed_at, _KINDS[trade.action], amount, position, cash=account.cash + fee, trade_id=trade.trade_id
        )
        if fee:
            self._add_entry(account, trade.executed_at, LedgerKind.FEE, -fee, position, trade_id=trade.trade_id)

    def settle(self, settlement: Settlement) -> None:
        """Settle all positions on a market for the cohorts of one methodology. If the side of a position is not an outcome, nothing is settled
        and a violation is recorded.

        Open positions are paid or refunded. Payments of an earlier settlement are reversed first.
        """
        positions = [
            position
            for position in self._holders.get(settlement.market_id, ())
            if position.status is not PositionStatus.CLOSED and self.accounts[position.agent_id].agent.methodology == settlement.methodology
        ]
        paid = [_compute_payout(position, settlement) for position in positions]
        if None in paid:
            position = positions[paid.index(None)]
            mismatch = f"{position.side!r} of {position.position_id} is none of the outcomes {', '.join(settlement.payouts)}"
            self.violations.append(Violation("every position of a market can be settled", settlement.market_id, mismatch))
            return
        self.settlements.pop((settlement.methodology, settlement.market_id), None)
        self.settlements[settlement.methodology, settlement.market_id] = settlement
        for position, payout in zip(positions, paid, strict=True):
            self._pay(position, settlement, payout or MicroDollars(0))

    def _explain_problem(self, trade: Trade, account: Account | None) -> str | None:
        if account is None:
            return "the agent is unknown"
        if trade.trade_id in self._trades:
            return "it is booked already"
        if not trade.trade_id.startswith(f"{trade.agent_id}/"):
            return f"it is not of agent {trade.agent_id}"
        if (settled := self.settlements.get((account.agent.methodology, trade.market_id))) is not None:
            return f"market {trade.market_id} was settled at {settled.known_at.isoformat()}"
        return account.explain_problem(trade)

    def _pay(self, position: Position, settlement: Settlement, payout: MicroDollars) -> None:
        account = self.accounts[position.agent_id]
        # Any avoids a call of `MicroDollars` for each sum.
        totals: Any = account
        changed: Any = position
        if position.paid is not None:
            reversed_payment = position.paid
            totals.cash -= reversed_payment
            totals.taken_back += reversed_payment
            changed.realized -= reversed_payment - position.cost
            kind = LedgerKind.REFUND if position.result is Result.CANCELLED else LedgerKind.SETTLE
            self._add_entry(account, settlement.known_at, kind, -reversed_payment, position, corrects=True)
        else:
            del account.open[position.market_id, fold_case(position.side)]
        totals.cash += payout
        position.status, position.ended_at = PositionStatus.SETTLED, settlement.known_at
        position.paid, position.result = payout, settlement.result
        is_won = settlement.result is Result.WON and settlement.winner is not None
        position.won = fold_case(position.side) == fold_case(settlement.winner or "") if is_won else None
        changed.realized += payout - position.cost
        kind = LedgerKind.REFUND if settlement.result is Result.CANCELLED else LedgerKind.SETTLE
        self._add_entry(account, settlement.known_at, kind, payout, position)

    def _add_entry(
        self,
        account: Account,
        at: datetime,
        kind: LedgerKind,
        amount: int,
        position: Position,
        *,
        cash: int | None = None,
        trade_id: str | None = None,
        corrects: bool = False,
    ) -> None:
        agent_id = account.agent.agent_id
        number = self._numbers[agent_id] = self._numbers.get(agent_id, 0) + 1
        balance = account.cash if cash is None else cash
        holding = (0, 0) if position.status is PositionStatus.SETTLED else (position.shares, position.cost)
        row = (
            agent_id,
            number,
            at,
            kind,
            amount,
            balance,
            position.market_id,
            position.position_id,
            position.side,
            *holding,
            trade_id,
            corrects,
        )
        self.entries.append(_new(LedgerEntry, row))


def fold(
    agents: Iterable[Agent], trades: Iterable[Trade], settlements: Iterable[Settlement], *, known_at: datetime | None = None
) -> Ledger:
    """Build the ledger from the facts known by `known_at` (default: all). The order of elements in the arguments has no effect."""
    ledger = Ledger()
    for agent in sorted(agents):
        ledger.open_account(agent)
    for fact in _sort_facts(trades, settlements, known_at):
        if isinstance(fact, Trade):
            ledger.trade(fact)
        else:
            ledger.settle(fact)
    return ledger


def _sort_facts(trades: Iterable[Trade], settlements: Iterable[Settlement], known_at: datetime | None) -> Sequence[Trade | Settlement]:
    facts: list[tuple[tuple[datetime, int, str, int, str], Trade | Settlement]] = []
    for trade in trades:
        if known_at is None or trade.executed_at <= known_at:
            decision, _, leg = trade.trade_id.rpartition("/")
            facts.append(((trade.executed_at, 0, decision, int(leg) if leg.isdecimal() else 0, trade.trade_id), trade))
    for settlement in settlements:
        if known_at is None or settlement.known_at <= known_at:
            facts.append(((settlement.known_at, 1, settlement.market_id, settlement.number, settlement.methodology), settlement))
    facts.sort(key=itemgetter(0))
    if len({key for key, _ in facts}) < len(facts):
        # Duplicates: sort by content, so that the result does not depend on the order of the arguments.
        facts.sort(key=lambda fact: (fact[0], repr(fact[1])))
    return [fact for _, fact in facts]


def _compute_payout(position: Position, settlement: Settlement) -> MicroDollars | None:
    """Return the payout of a position in micro-dollars; None if the position's side is not an outcome of the settlement."""
    if settlement.result is Result.CANCELLED:
        return position.cost
    price = settlement.payouts.get(fold_case(position.side))
    return None if price is None else share_value(position.shares, price)


def violations(ledger: Ledger, trades: Iterable[Trade], legs: Mapping[str, int] | None = None) -> list[Violation]:
    """Return the violated invariants, and the facts that could not be booked. trades: all trades of the ledger. legs: number of non-refused legs
    of each executed BET, by decision.
    """
    trades = list(trades)
    by_agent: dict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in ledger.entries:
        by_agent[entry.agent_id].append(entry)
    problems = list(ledger.violations)
    for agent_id, account in ledger.accounts.items():
        entries = by_agent[agent_id]
        problems += _check_cash(account, entries)
        problems += _check_positions(account)
        problems += _check_totals(account)
    problems += _check_trades(ledger, trades)
    problems += _check_settlements(ledger)
    problems += _check_legs(trades, legs or {})
    return problems


def _check_cash(account: Account, entries: list[LedgerEntry]) -> Iterator[Violation]:
    """Check that the cash of each ledger entry is the initial cash plus all amounts so far. Only payouts that corrections took back may make it
    negative.
    """
    agent_id, taken_back = account.agent.agent_id, 0
    cash: int = account.agent.initial_cash
    for entry in entries:
        cash += entry.amount
        taken_back -= entry.amount if entry.corrects else 0
        if cash != entry.cash:
            yield Violation(
                "cash is the initial balance and its movements", f"{agent_id}, entry {entry.number}", f"{entry.cash}, not {cash}"
            )
        if cash + taken_back < 0:
            yield Violation("cash is 0 or more", f"{agent_id}, entry {entry.number}", f"{cash}")
    if cash != account.cash:
        yield Violation("cash is the initial balance and its movements", agent_id, f"{account.cash}, not {cash}")


def _check_positions(account: Account) -> Iterator[Violation]:
    """Check that shares and cost fit the position's status, that a side has one open position at most, and that `invested` is the cost of the
    open positions.
    """
    agent_id = account.agent.agent_id
    sides: set[tuple[str, str]] = set()
    cost = 0
    for position in account.positions.values():
        if position.status is PositionStatus.OPEN:
            side = position.market_id, fold_case(position.side)
            if side in sides:
                yield Violation("one open position per market and side", agent_id, f"{position.side} of {position.market_id} twice")
            sides.add(side)
            cost += position.cost
        closed = position.status is PositionStatus.CLOSED
        if (position.shares == 0) != closed or position.cost < 0 or position.shares < 0 or (closed and position.cost):
            values = f"{position.status} with {position.shares} micro-shares that cost {position.cost}"
            yield Violation("shares and cost fit the status", position.position_id, values)
    if sides != set(account.open) or cost != account.invested:
        yield Violation("invested is the cost of the open positions", agent_id, f"{account.invested}, not {cost}")


def _check_totals(account: Account) -> Iterator[Violation]:
    """Check that cash plus cost of open positions equals initial balance plus realized profit minus fees."""
    worth = account.cash + account.invested
    expected = account.agent.initial_cash + account.realized - account.fees
    if worth != expected:
        yield Violation("total is initial + realized + unrealized - fees", account.agent.agent_id, f"{worth}, not {expected}")


def _check_trades(ledger: Ledger, trades: list[Trade]) -> Iterator[Violation]:
    """Check that each trade is booked once with its amount and fee, or reported as a violation, and that no entry refers to an unknown trade."""
    booked: dict[str, dict[LedgerKind, int]] = defaultdict(dict)
    for entry in ledger.entries:
        if entry.trade_id is not None:
            booked[entry.trade_id][entry.kind] = entry.amount
    refused = {violation.where for violation in ledger.violations}
    expected: dict[str, list[dict[LedgerKind, int]]] = defaultdict(list)
    for trade in trades:
        amount = -trade.amount if trade.action == "BUY" else trade.amount
        expected[trade.trade_id].append({LedgerKind(trade.action): amount, **({LedgerKind.FEE: -trade.fee} if trade.fee else {})})
    for trade_id in expected.keys() - booked.keys() - refused:
        yield Violation("each trade is booked once", trade_id, "it has no entry")
    for trade_id, amounts in booked.items():
        if amounts not in expected.get(trade_id, []):
            yield Violation(
                "each trade is booked once", trade_id, f"its entries are { ({kind.value: amount for kind, amount in amounts.items()}) }"
            )


def _check_settlements(ledger: Ledger) -> Iterator[Violation]:
    """Check that no position is open on a settled market, and that no position is settled on an unsettled market."""
    for account in ledger.accounts.values():
        for position in account.positions.values():
            settled = (account.agent.methodology, position.market_id) in ledger.settlements
            wrong = position.status is (PositionStatus.OPEN if settled else PositionStatus.SETTLED)
            if wrong:
                state = f"{position.position_id} is {position.status}"
                yield Violation("a market settles as a whole", position.market_id, state)


def _check_legs(trades: list[Trade], legs: Mapping[str, int]) -> Iterator[Violation]:
    """Check that an executed BET has a trade for each leg that was not refused. legs: number of such legs by decision."""
    counts: dict[str, int] = defaultdict(int)
    for trade in trades:
        counts[decision_of_trade(trade.trade_id)] += 1
    for decision_id, expected in legs.items():
        if counts[decision_id] != expected:
            yield Violation("each leg of a bet has a trade or a refusal", decision_id, f"{counts[decision_id]} trades of {expected}")
