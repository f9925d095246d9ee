"""Views of markets and orders, through which an agent reads the simulator."""

from __future__ import annotations

from typing import Any

from bellwether.errors import OrderError
from bellwether.replay.agents import port
from bellwether.replay.agents.records import ACTIONS, REASONS, SIDES, STATUSES
from bellwether.replay.engine import codes
from bellwether.replay.units import DOLLAR, NO, SECOND, SELL, YES
from bellwether.units import CentiCents, Lots, MicroDollars

_RESTING = int(codes.Status.RESTING)
_MARKET_STATUS = tuple((int(codes.TickerStatus[name]), name.lower()) for name in ("SETTLED", "CLOSED", "HALTED", "NO_BOOK", "INVALID"))
#: Bits of a market's status under which it accepts no orders.
BLOCKING = sum(bit for bit, _ in _MARKET_STATUS)


class Market:
    """Present state of a market.

    Prices are in $0.0001, and None if that side of the book is empty. Sizes and positions are in lots of 0.01 contract. Values are live:
    they follow fills within a decision. Reading an attribute costs no tool call.

    Attributes:
        ticker: Ticker of the market.
        title: Title of the market; untrusted text.
        code: Number of the market: its row in arrays.
        close_ns: Close time, ns UTC; None if not announced.
    """

    __slots__ = ("_ctx", "close_ns", "code", "ticker", "title")

    def __init__(self, ctx: Any, code: int, ticker: str, title: str, close_ns: int | None) -> None:
        self._ctx, self.code, self.ticker, self.title, self.close_ns = ctx, code, ticker, title, close_ns

    @property
    def yes_bid(self) -> CentiCents | None:
        """Best bid for YES, $0.0001; None without a bid."""
        return self._ctx._rows("bids")[self.code][YES] or None

    @property
    def no_bid(self) -> CentiCents | None:
        """Best bid for NO, $0.0001; None without a bid."""
        return self._ctx._rows("bids")[self.code][NO] or None

    @property
    def yes_ask(self) -> CentiCents | None:
        """Best ask for YES, $0.0001: a dollar less the best bid for NO; None without such a bid."""
        return self._ask(NO)

    @property
    def no_ask(self) -> CentiCents | None:
        """Best ask for NO, $0.0001: a dollar less the best bid for YES; None without such a bid."""
        return self._ask(YES)

    def _ask(self, other: int) -> Any:
        bid = self._ctx._rows("bids")[self.code][other]
        return DOLLAR - bid if bid else None

    @property
    def mid(self) -> float | None:
        """Midpoint of the best bid and ask for YES in $0.0001, which may end in a half; None if either is missing."""
        yes, no = self._ctx._rows("bids")[self.code]
        return (yes + DOLLAR - no) / 2 if yes and no else None

    @property
    def spread(self) -> CentiCents | None:
        """Best ask less best bid for YES, $0.0001; None if either is missing."""
        yes, no = self._ctx._rows("bids")[self.code]
        spread: Any = DOLLAR - no - yes
        return spread if yes and no else None

    @property
    def yes_bid_lots(self) -> Lots:
        """Size at the best bid for YES, which equals the size at `no_ask`; lots of 0.01 contract."""
        return self._ctx._rows("sizes")[self.code][YES]

    @property
    def no_bid_lots(self) -> Lots:
        """Size at the best bid for NO, which equals the size at `yes_ask`; lots of 0.01 contract."""
        return self._ctx._rows("sizes")[self.code][NO]

    @property
    def yes_position(self) -> Lots:
        """Position in YES, lots of 0.01 contract."""
        return self._ctx._rows("positions")[self.code][YES]

    @property
    def no_position(self) -> Lots:
        """Position in NO, lots of 0.01 contract."""
        return self._ctx._rows("positions")[self.code][NO]

    @property
    def is_active(self) -> bool:
        """True if the market accepts orders now."""
        return not self._ctx._rows("status")[self.code] & BLOCKING

    @property
    def status(self) -> str:
        """Status: active, no_book, invalid, halted, closed or settled. Only an active market accepts orders."""
        bits = self._ctx._rows("status")[self.code]
        return next((text for bit, text in _MARKET_STATUS if bits & bit), "active")

    @property
    def seconds_to_close(self) -> float | None:
        """Seconds until the close time, 0 after it; None if no close time is announced."""
        return None if self.close_ns is None else max(0, self.close_ns - self._ctx.now_ns) / SECOND

    def __repr__(self) -> str:
        return f"Market({self.ticker!r}, yes_bid={self.yes_bid}, yes_ask={self.yes_ask}, {self.status})"


class Order:
    """Present state of one of the agent's orders.

    Prices are in $0.0001, sizes in lots of 0.01 contract, money in micro-dollars. An order is accepted wherever an order id is expected. An order
    that the venue does not record has the id -1 and the status rejected; other attributes of it raise `OrderError`.

    Attributes:
        id: Number of the order in its run, from 0; -1 without a record.
    """

    __slots__ = ("_ctx", "id")

    def __init__(self, ctx: Any, number: int) -> None:
        self._ctx, self.id = ctx, number

    def __index__(self) -> int:
        return self.id

    def _get(self, column: int) -> Any:
        if self.id < 0:
            raise OrderError("reading an order: the venue has no record of it; only status and reason are available")
        return self._ctx._order_row(self.id)[column]

    def _amount(self, column: int) -> Any:
        return self._get(column) if self.id >= 0 else 0

    @property
    def ticker(self) -> str:
        """Ticker of the market."""
        return self._ctx.tickers[self._get(port.TICKER)]

    @property
    def side(self) -> str:
        """Side as sent: yes or no."""
        return SIDES[self._get(port.SIDE)]

    @property
    def action(self) -> str:
        """Action as sent: buy or sell."""
        return ACTIONS[self._get(port.ACTION)]

    @property
    def price(self) -> CentiCents | None:
        """Limit price of the order's side, $0.0001, after amendments; None for a market order."""
        return self._amount(port.PRICE) or None

    @property
    def lots(self) -> Lots:
        """Size, lots of 0.01 contract, after amendments."""
        return self._amount(port.LOTS)

    @property
    def filled(self) -> Lots:
        """Filled size, lots of 0.01 contract."""
        return self._amount(port.FILLED)

    @property
    def remaining(self) -> Lots:
        """Unfilled size, lots of 0.01 contract; 0 after the order has ended."""
        remaining: Any = self.lots - self.filled if self.status in ("pending", "resting") else 0
        return remaining

    @property
    def status(self) -> str:
        """Status: pending (not yet arrived), resting, filled, cancelled, rejected or expired."""
        return STATUSES[self._get(port.STATUS)] if self.id >= 0 else "rejected"

    @property
    def reason(self) -> str | None:
        """Reason of a rejection or cancellation, such as insufficient_cash; None otherwise."""
        return REASONS[self._reason]

    @property
    def explanation(self) -> str:
        """Text that explains `reason`; empty without a reason."""
        return codes.Reason(self._reason).text

    @property
    def _reason(self) -> int:
        return self._get(port.REASON) if self.id >= 0 else self._ctx._port.read("refusal")

    @property
    def is_resting(self) -> bool:
        """True if the order rests in the book now."""
        return self.id >= 0 and self._get(port.STATUS) == _RESTING

    @property
    def cost(self) -> MicroDollars:
        """Cost of the fills without fees, micro-dollars; negative for sales."""
        cost = self._amount(port.COST)
        return -cost if cost and self._get(port.ACTION) == SELL else cost

    @property
    def fees(self) -> MicroDollars:
        """Fees of the fills, micro-dollars."""
        return self._amount(port.FEES)

    @property
    def tag(self) -> str:
        """Label given with the order; empty without one."""
        return self._ctx._port.tags.get(self.id, "")

    def __repr__(self) -> str:
        if self.id < 0:
            return f"Order(rejected: {self.reason})"
        text = f"Order({self.id}, {self.action} {self.lots} {self.side} {self.ticker!r} at {self.price or 'market'}: {self.status}"
        return f"{text}, {self.reason})" if self.reason else f"{text})"
