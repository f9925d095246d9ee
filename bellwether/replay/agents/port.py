"""Port between an agent's context and the simulator: observations are read, orders and timers are sent.

`AgentContext` reaches the simulator only through the two methods of `Port`, so that an agent can run in this process (`local_port.LocalPort`) or in
another one (`isolation.child.RemotePort`). Arguments are integers, strings or an int64 array. Prices are in $0.0001 of the named side, sizes in
lots of 0.01 contract, money in micro-dollars, times in ns UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bellwether.replay.engine import codes

if TYPE_CHECKING:
    from bellwether.replay.rules import RuleSet
    from bellwether.replay.settings import BacktestSettings

#: Names of the calls of `Port.read`, with the types of their arguments: m number of a market, M the same or -1 for all, s number of a series, i
#: integer, n integer from 0 on, t tag, p list of pairs of prices. Agents of this process can also read `conditions`.
READS = {
    "now": "",  # time of the decision
    "sent": "",  # number of orders sent so far
    "cash": "",
    "available": "",  # cash that resting orders do not reserve
    "equity": "",  # cash plus positions at their present sale prices
    "bids": "",  # best bids for YES and NO, 0 for none, int64[T, 2]
    "sizes": "",  # sizes at the best bids, int64[T, 2]
    "positions": "",  # in YES and NO, int64[T, 2]
    "status": "",  # bits of `codes.TickerStatus`, int64[T]
    "order": "i",  # id: values of the fields `codes.SHOWN`; None for an unknown id
    "refusal": "",  # code of the reason for which an order has no record
    "book": "mi",  # market, depth or -1: levels of the bids for YES and for NO, best first, as pairs of price and lots
    "resting": "M",  # ids of resting orders, in price-time priority
    "points": "sn",  # series, first: times and values of an exogenous series that are known now, from an index on
    "trades": "M",  # recorded trades since the previous decision, int64[n, 5], columns the fields of `codes.TRADE`
    "fills": "Mi",  # market, whole run 0 or 1: own fills since the previous decision or of the run, records `codes.FILL`
    "ledger": "M",  # rows of lots of YES and NO, their costs, realised P&L, fees and unrealised P&L
}
#: Names of the calls of `Port.send`, likewise.
SENDS = {
    "place": "iiiiiiit",  # market, side, action, price or 0, lots, time in force, expiry or 0, tag: id of the order; -1 if the venue does not record it
    "cancel": "i",  # whether the order was resting
    "cancel_all": "M",  # number of cancelled orders
    "amend": "iii",  # id, price, remaining lots: code of the reason of a refusal, else 0
    "quote": "miiit",  # market, price of YES, price of NO, lots, tag: ids of the quotes, -1 for none. A price of 0 cancels, -1 changes nothing
    "quote_many": "pit",  # prices by market, lots, tag: ids, int64[T, 2]
    "timer": "i",  # time: empty text, or the reason for which no timer was set
}
#: Order as a tuple of the fields `codes.SHOWN`, and the places of these.
Row = tuple[int, ...]
TICKER, SIDE, ACTION, PRICE, LOTS, FILLED, STATUS, REASON, COST, FEES = range(len(codes.SHOWN))
#: Rows of fills, order updates and trades, numbers of markets whose best prices changed, and times of due timers.
News = tuple[Sequence[Any], Sequence[Any], Sequence[Any], list[int], list[int]]


class Port(Protocol):
    """Connection of an agent's context to the simulator, with the names, arguments and results of this module.

    Attributes:
        tags: Labels of orders by id.
    """

    tags: dict[int, str]

    def read(self, name: str, *arguments: Any) -> Any:
        """Return an observation. Results do not change between two calls of `send` in one phase (a decision or callback)."""
        ...

    def send(self, name: str, *arguments: Any) -> Any:
        """Send orders or set a timer, and return the result."""
        ...


@dataclass(frozen=True, eq=False)
class Conditions:
    """Terms under which an episode is traded: rules, settings, fees and allowed prices.

    Attributes:
        rules: Rule set.
        settings: Settings of the run.
        fees: Rows of `fee_terms`, int64[T, F].
        grids: Allowed prices of each market at its start, $0.0001.
        units: Units of each market of a portfolio, int64[T, 6], as `Tape.units`; empty if all markets use the units of the rules.
        tape_digest: SHA-256 of the tape's content.
    """

    rules: RuleSet
    settings: BacktestSettings
    fees: np.ndarray
    grids: Sequence[np.ndarray]
    units: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    tape_digest: str = ""


def store_tag(tags: dict[int, str], orders: Any, tag: str) -> None:
    """Store the label of orders by id, unless it is empty. orders: ids; -1 for orders without a record, which have no label."""
    if tag:
        for number in np.ravel(orders).tolist():
            if number >= 0:
                tags.setdefault(number, tag)


def rows_of(rows: np.ndarray, markets: np.ndarray, market: int) -> np.ndarray:
    """Return the rows of a market, given the market of each row; all rows for -1."""
    return rows if market < 0 else rows[markets == market]
