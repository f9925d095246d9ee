"""Fill policies: what a leg is filled at, given the quote of its side.

mid: at the midpoint, any number of micro-shares, without looking at what rests. realistic: at the resting orders of the other side, best first, in
whole steps of shares on the market's ticks, at least its smallest order, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bellwether.arena.decision import Reason
from bellwether.arena.facts import Action
from bellwether.arena.market import KalshiFees, Level, Market, Quote, UnknownFees
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import MICROS, divided, dollars, micros, shares_for, value_of
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE, Side


@dataclass(frozen=True, slots=True)
class Filled:
    """shares: micro-shares. price: micro-dollars per share, the average. amount, fee: micro-dollars. skipped: levels that could not be used."""

    shares: MicroShares
    price: SharePrice
    amount: MicroDollars
    fee: MicroDollars
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Unfilled:
    """Why a leg cannot be filled."""

    reason: Reason
    message: str


Buy = Callable[[Methodology, Market, Quote, MicroDollars], "Filled | Unfilled"]


def buy(methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> Filled | Unfilled:
    """Shares for up to `amount` micro-dollars. Under `mid` exactly for that amount."""
    return _unknown_fees(methodology, market) or _BUYS[methodology.fill](methodology, market, quote, amount)


def sell(methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, held: MicroShares) -> Filled | Unfilled:
    """Micro-dollars for `shares` of `held` micro-shares."""
    return _unknown_fees(methodology, market) or _SELLS[methodology.fill](methodology, market, quote, shares, held)


def _unknown_fees(methodology: Methodology, market: Market) -> Unfilled | None:
    fees = market.fees
    return Unfilled(Reason.FEES, fees.reason) if methodology.fees != "none" and isinstance(fees, UnknownFees) else None


def _buy_at_mid(methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> Filled | Unfilled:
    price = quote.mid
    if price is None:
        return Unfilled(Reason.NO_PRICE, "no validated price was quoted")
    if not 0 < price <= MICROS:
        return Unfilled(Reason.PRICE, f"the price is {dollars(price)}; it must be above 0 and 1 at most")
    shares = shares_for(amount, price)
    return Filled(shares, price, amount, _fee(methodology, market, [Level(price, shares)], "BUY"))


def _sell_at_mid(methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, held: MicroShares) -> Filled | Unfilled:
    price = quote.mid
    if price is None:
        return Unfilled(Reason.NO_PRICE, "no validated price was quoted")
    if not 0 <= price <= MICROS:
        return Unfilled(Reason.PRICE, f"the price is {dollars(price)}; it must be from 0 to 1")
    return Filled(shares, price, value_of(shares, price), _fee(methodology, market, [Level(price, shares)], "SELL"))


def _buy_from_book(methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> Filled | Unfilled:
    side = _usable(quote, quote.asks, quote.ask, market)
    if isinstance(side, Unfilled):
        return side
    levels, skipped = side
    taken: list[Level] = []
    left: int = amount
    step = methodology.step
    for level in levels:
        affordable = left * MICROS // level.price // step * step
        shares = MicroShares(min(affordable, level.shares // step * step))
        if shares:
            taken.append(Level(level.price, shares))
            left -= value_of(shares, level.price)
        if shares == affordable:
            return _taken(methodology, market, taken, "BUY", whole=False, skipped=skipped)
    bought = dollars(sum(level.shares for level in taken))
    return Unfilled(Reason.DEPTH, f"the book offers {bought} shares, which is less than {dollars(amount)} dollars buy{_told(skipped)}")


def _sell_into_book(methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, held: MicroShares) -> Filled | Unfilled:
    side = _usable(quote, quote.bids, quote.bid, market)
    if isinstance(side, Unfilled):
        return side
    levels, skipped = side
    step = methodology.step
    # The last of a position goes as a whole: what a step cannot express would stay for ever.
    wanted = shares if shares == held else MicroShares(shares // step * step)
    if not wanted:
        return Unfilled(Reason.TOO_SMALL, f"{dollars(shares)} shares are less than one step of {dollars(step)}")
    taken: list[Level] = []
    left: int = wanted
    for level in levels:
        part = MicroShares(min(left, level.shares))
        if part:
            taken.append(Level(level.price, part))
            left -= part
        if not left:
            return _taken(methodology, market, taken, "SELL", whole=shares == held, skipped=skipped)
    return Unfilled(Reason.DEPTH, f"the book takes {dollars(wanted - left)} shares of {dollars(wanted)}{_told(skipped)}")


def _usable(quote: Quote, resting: tuple[Level, ...], best: SharePrice | None, market: Market) -> tuple[list[Level], int] | Unfilled:
    """(levels that can be taken, best first; number of the others). Where only the best price is known, its size is taken to be enough.

    Each level is judged alone, by the tick size that the book states, or that of the market where the book states none.
    """
    levels = resting or (() if best is None else (Level(best, MicroShares(10**18)),))
    if not levels:
        return Unfilled(Reason.NO_PRICE, f"nobody quotes the other side{_told(quote.skipped)}")
    tick = quote.tick or market.tick
    inside = [level for level in levels if 0 < level.price < MICROS]
    usable = [level for level in inside if not (tick and level.price % tick)]
    if not inside:
        return Unfilled(Reason.PRICE, f"the price is {dollars(levels[0].price)}; it must be between 0 and 1")
    if not usable:
        return Unfilled(
            Reason.OFF_TICK,
            f"none of {len(levels)} prices, {dollars(inside[0].price)} the best, is a multiple of the tick {dollars(tick or 0)}",
        )
    return usable, quote.skipped + len(levels) - len(usable)


def _told(skipped: int) -> str:
    return f"; unusable levels left out: {skipped}" if skipped else ""


def _taken(methodology: Methodology, market: Market, taken: list[Level], action: Action, *, whole: bool, skipped: int) -> Filled | Unfilled:
    shares = MicroShares(sum(level.shares for level in taken))
    if not shares or (market.min_shares and shares < market.min_shares and not whole):
        least = dollars(market.min_shares or methodology.step)
        return Unfilled(Reason.TOO_SMALL, f"{dollars(shares)} shares are below the smallest order of {least}")
    amount = MicroDollars(sum(value_of(level.shares, level.price) for level in taken))
    return Filled(shares, SharePrice(divided(amount * MICROS, shares)), amount, _fee(methodology, market, taken, action), skipped)


def _fee(methodology: Methodology, market: Market, taken: list[Level], action: Action) -> MicroDollars:
    """Taker fee of the venue for these fills, in micro-dollars; of both regimes in dollars."""
    fees = market.fees
    if methodology.fees == "none" or fees == FREE or isinstance(fees, UnknownFees):
        return MicroDollars(0)
    side: Side = "buy" if action == "BUY" else "sell"
    fills = [(dollars(level.shares), dollars(level.price)) for level in taken]
    charged = fees.of_order(fills, side) if isinstance(fees, KalshiFees) else [fees.fee(*fill, side) for fill in fills]
    return MicroDollars(sum(map(micros, charged)))


_BUYS: Mapping[str, Buy] = {"mid": _buy_at_mid, "realistic": _buy_from_book}
_SELLS: Mapping[str, Callable[[Methodology, Market, Quote, MicroShares, MicroShares], Filled | Unfilled]] = {
    "mid": _sell_at_mid,
    "realistic": _sell_into_book,
}
