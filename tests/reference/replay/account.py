"""Cash, positions and their cost, in micro-dollars and lots."""

from __future__ import annotations

from dataclasses import dataclass

BUY, SELL = 0, 1


@dataclass
class Account:
    """The money of one queue model. position, basis: [ticker][side]."""

    cash: int
    position: list[list[int]]
    basis: list[list[int]]
    realised: int = 0
    fees: int = 0

    @classmethod
    def opened(cls, tickers: int, bankroll: int) -> Account:
        return cls(bankroll, [[0, 0] for _ in range(tickers)], [[0, 0] for _ in range(tickers)])

    def copy(self) -> Account:
        return Account(self.cash, [row[:] for row in self.position], [row[:] for row in self.basis], self.realised, self.fees)

    def fill(self, ticker: int, side: int, action: int, price: int, lots: int, fee: int) -> None:
        """Book a fill of an order as it was sent. The price is in $0.0001 of its side."""
        self.cash -= fee
        self.fees += fee
        if action == BUY:
            self._net(ticker, side, price, lots)
        else:
            self._net(ticker, 1 - side, 10_000 - price, lots)

    def _net(self, ticker: int, side: int, price: int, lots: int) -> None:
        position, basis, other = self.position[ticker], self.basis[ticker], 1 - side
        self.cash -= price * lots
        pairs = min(lots, position[other])
        if pairs:
            removed = basis[other] * pairs // position[other]
            self.cash += 10_000 * pairs
            self.realised += 10_000 * pairs - price * pairs - removed
            basis[other] -= removed
            position[other] -= pairs
        position[side] += lots - pairs
        basis[side] += price * (lots - pairs)

    def settle(self, ticker: int, value: int) -> None:
        """Settle a market: a YES contract pays `value` micro-dollars, a NO contract the rest of a dollar."""
        for side, pays in ((0, value), (1, 1_000_000 - value)):
            lots = self.position[ticker][side]
            pay = pays * lots // 100
            self.cash += pay
            self.realised += pay - self.basis[ticker][side]
            self.position[ticker][side] = self.basis[ticker][side] = 0

    def void(self, ticker: int) -> None:
        """Refund the cost of positions."""
        for side in (0, 1):
            self.cash += self.basis[ticker][side]
            self.position[ticker][side] = self.basis[ticker][side] = 0
