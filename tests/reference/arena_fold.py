"""The rules of docs/arena.md, implemented literally: dictionaries, Decimals in dollars, one fact after the other, and no code of the product.

Facts are the product's tuples, read by field name. Results are exact until they are rounded to six decimals, half to even.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

EXACT = Context(prec=100)
SIXTH = Decimal("0.000001")


def rounded(value: Decimal) -> Decimal:
    return value.quantize(SIXTH, rounding=ROUND_HALF_EVEN, context=EXACT)


def dollars(millionths: int) -> Decimal:
    return EXACT.divide(Decimal(millionths), Decimal(1_000_000))


def results(looks: list[Any], grace: timedelta, often: int, window: timedelta, refunds_unknown: bool) -> list[dict[str, Any]]:
    """Return the results of one market from its evidence: from when each counts, and its payout per share (None: the cost is refunded)."""
    counted: list[dict[str, Any]] = []
    looks = sorted(looks, key=lambda look: (look.observed_at, look.by_operator, look.rule, repr(look.ruling)))
    for place, look in enumerate(looks):
        if look.ruling is None:
            continue
        result = (look.ruling.result, look.ruling.payouts)
        if counted and (counted[-1]["said"] == result or look.ruling.result is None):
            continue
        # Earlier evidence with the same result, back to the last one that differs or already counted.
        times = {look.observed_at}
        for earlier in reversed(looks[:place]):
            agrees = earlier.ruling is not None and (earlier.ruling.result, earlier.ruling.payouts) == result
            if not agrees or (counted and earlier is counted[-1]["look"]):
                break
            times.add(earlier.observed_at)
        seen_often = len(times) >= often
        if look.ruling.result is None:
            counts = refunds_unknown and seen_often and look.observed_at - min(times) >= grace
        else:
            settled_long_ago = look.final_at is not None and look.observed_at >= look.final_at + window
            counts = seen_often or settled_long_ago or look.by_operator
        if counts:
            verdict = look.ruling.result and str(look.ruling.result)
            refund = verdict in (None, "cancelled")
            pays = None if refund else {name: dollars(price) for name, price in look.ruling.payouts}
            counted.append({"said": result, "look": look, "at": look.observed_at, "pays": pays, "winner": look.ruling.winner})
    return counted


def ledger(agents: list[Any], trades: list[Any], counted: dict[tuple[str, str], list[dict[str, Any]]], until: Any = None) -> dict[str, Any]:
    """Compute cash movements, balances, positions and scores. `counted`: output of `results` by (methodology, market)."""
    cash = {agent.agent_id: dollars(agent.initial_cash) for agent in agents}
    rules = {agent.agent_id: agent.methodology for agent in agents}
    positions: dict[str, dict[str, Any]] = {}
    movements: list[tuple[Any, ...]] = []
    winners: dict[tuple[str, str], str | None] = {}

    def move(agent: str, kind: str, amount: Decimal, position: str) -> None:
        cash[agent] += amount
        held = positions[position]
        left = (Decimal(0), Decimal(0)) if held["status"] == "settled" else (held["shares"], held["cost"])
        movements.append((agent, kind, amount, cash[agent], position, *left))

    def buy(trade: Any) -> None:
        new = {"agent": trade.agent_id, "market": trade.market_id, "side": trade.side, "shares": Decimal(0), "cost": Decimal(0)}
        held = positions.setdefault(trade.position_id, new | {"status": "open", "gain": Decimal(0), "paid": None, "refund": False})
        held["shares"] += dollars(trade.shares)
        held["cost"] += dollars(trade.amount)
        move(trade.agent_id, "BUY", -dollars(trade.amount), trade.position_id)

    def sell(trade: Any) -> None:
        held, part = positions[trade.position_id], dollars(trade.shares)
        basis = rounded(EXACT.divide(EXACT.multiply(held["cost"], part), held["shares"]))
        held["shares"] -= part
        held["cost"] -= basis
        held["gain"] += dollars(trade.amount) - basis
        held["status"] = "open" if held["shares"] else "closed"
        move(trade.agent_id, "SELL", dollars(trade.amount), trade.position_id)

    def settle(methodology: str, market: str, result: dict[str, Any]) -> None:
        winners[methodology, market] = result["winner"]
        for name, held in positions.items():
            if held["market"] != market or rules[held["agent"]] != methodology or held["status"] == "closed":
                continue
            held["status"] = "settled"
            if held["paid"] is not None:
                move(held["agent"], "REFUND" if held["refund"] else "SETTLE", -held["paid"], name)
                held["gain"] -= held["paid"] - held["cost"]
            pays = result["pays"]
            held["refund"] = pays is None
            held["paid"] = held["cost"] if pays is None else rounded(EXACT.multiply(held["shares"], pays[held["side"].lower()]))
            held["gain"] += held["paid"] - held["cost"]
            move(held["agent"], "REFUND" if held["refund"] else "SETTLE", held["paid"], name)

    facts: list[tuple[Any, ...]] = []
    for trade in trades:
        decision, _, leg = trade.trade_id.rpartition("/")
        facts.append((trade.executed_at, 0, decision, int(leg), "", trade))
    for (methodology, market), results_of_market in counted.items():
        facts.extend((result["at"], 1, market, 0, methodology, result) for result in results_of_market)
    for at, kind, market, _, methodology, fact in sorted(facts, key=lambda one: one[:5]):
        if until is not None and at > until:
            continue
        if kind == 1:
            settle(methodology, market, fact)
            continue
        (buy if fact.action == "BUY" else sell)(fact)
        if fact.fee:
            move(fact.agent_id, "FEE", -dollars(fact.fee), fact.position_id)

    scored = {}
    for trade in trades:
        winner = winners.get((rules[trade.agent_id], trade.market_id))
        if winner is not None and trade.action == "BUY" and (until is None or trade.executed_at <= until):
            scored[trade.trade_id] = (trade.confidence - (winner.lower() == trade.side.lower())) ** 2
    return {"cash": cash, "positions": positions, "movements": movements, "scores": scored}
