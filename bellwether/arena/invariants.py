"""Invariants of accounts and ledger, checked after every run. Each function yields violations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from bellwether.arena.account import Account, PositionStatus
from bellwether.arena.facts import Trade
from bellwether.arena.identity import decision_of_trade
from bellwether.arena.ledger import Ledger, LedgerEntry, LedgerKind, Violation
from bellwether.arena.market import fold_case


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
