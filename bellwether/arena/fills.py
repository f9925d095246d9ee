"""Fill policies: at which price and in which size a leg (bet or sale) is filled, given the quote of its side.

mid: at the midpoint, for any number of micro-shares, regardless of depth. realistic: against the resting orders of the other side, best first,
on the market's ticks, in whole steps of shares, at least the minimum order, all or nothing. Without a midpoint neither fills, because the
position could not be marked.
"""

from __future__ import annotations

from dataclasses import dataclass

from bellwether.arena.decision import LegRefused, Reason
from bellwether.arena.facts import Action
from bellwether.arena.market import KalshiFees, Level, Market, Quote, UnknownFees
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import MICROS, divide_half_even, dollars, micros, share_value, shares_for
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE, Side


@dataclass(frozen=True, slots=True)
class LegFill:
    """Fill of a leg. shares: micro-shares. price: average in micro-dollars per share. amount, fee: micro-dollars. skipped: number of unusable
    levels of the book.

    taken: resting orders that are the counterparty; a fill at the midpoint has those at the best price of the other side. unmatched: part of the
    amount without a counterparty, in micro-dollars; None if the quote has no sizes.
    """

    shares: MicroShares
    price: SharePrice
    amount: MicroDollars
    fee: MicroDollars
    taken: tuple[Level, ...]
    unmatched: MicroDollars | None
    skipped: int = 0


def fill_buy(methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> LegFill:
    """Fill a purchase for up to `amount` micro-dollars, exactly `amount` under the policy `mid`. Raises `LegRefused`."""
    _check_fillable(methodology, market, quote)
    return (_buy_at_mid if methodology.fill == "mid" else _buy_from_book)(methodology, market, quote, amount)


def fill_sell(methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, position: MicroShares) -> LegFill:
    """Fill a sale of `shares`. position: number of shares held. Both are micro-shares. Raises `LegRefused`."""
    _check_fillable(methodology, market, quote)
    return (_sell_at_mid if methodology.fill == "mid" else _sell_into_book)(methodology, market, quote, shares, position)


def _check_fillable(methodology: Methodology, market: Market, quote: Quote) -> None:
    """Raise `LegRefused` if a leg cannot be filled at any size."""
    if quote.mid is None:
        missing = " and no ".join(name for name, price in (("bid", quote.bid), ("ask", quote.ask)) if price is None)
        raise LegRefused(Reason.NO_MIDPOINT, f"the book has no {missing}{_skipped_text(quote.skipped)}")
    if methodology.fees != "none" and isinstance(market.fees, UnknownFees):
        raise LegRefused(Reason.FEES, market.fees.reason)


def _buy_at_mid(methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> LegFill:
    price = quote.mid
    assert price is not None
    if not 0 < price <= MICROS:
        raise LegRefused(Reason.PRICE, f"the price is {dollars(price)}; it must be above 0 and 1 at most")
    shares = shares_for(amount, price)
    fee = _compute_fee(methodology, market, [Level(price, shares)], "BUY")
    return LegFill(shares, price, amount, fee, *_match(quote.asks, shares, price))


def _sell_at_mid(methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, position: MicroShares) -> LegFill:
    price = quote.mid
    assert price is not None
    if not 0 <= price <= MICROS:
        raise LegRefused(Reason.PRICE, f"the price is {dollars(price)}; it must be from 0 to 1")
    fee = _compute_fee(methodology, market, [Level(price, shares)], "SELL")
    return LegFill(shares, price, share_value(shares, price), fee, *_match(quote.bids, shares, price))


def _match(resting: tuple[Level, ...], shares: MicroShares, price: SharePrice) -> tuple[tuple[Level, ...], MicroDollars | None]:
    """Match a fill at the midpoint with the orders at the best price of the other side: return the matched level, and the value of the other
    shares at `price`, None if the sizes are unknown.
    """
    if not resting:
        return (), None
    matched = MicroShares(min(shares, resting[0].shares))
    return (Level(resting[0].price, matched),), share_value(MicroShares(shares - matched), price)


def _buy_from_book(methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> LegFill:
    levels, skipped = _select_levels(quote, quote.asks, market)
    filled: list[Level] = []
    cash: int = amount
    step = methodology.step
    for level in levels:
        affordable = cash * MICROS // level.price // step * step
        shares = MicroShares(min(affordable, level.shares // step * step))
        if shares:
            filled.append(Level(level.price, shares))
            cash -= share_value(shares, level.price)
        if shares == affordable:
            return _fill_from_levels(methodology, market, filled, "BUY", whole=False, skipped=skipped)
    bought = dollars(sum(level.shares for level in filled))
    raise LegRefused(
        Reason.DEPTH, f"the book offers {bought} shares, which is less than {dollars(amount)} dollars buy{_skipped_text(skipped)}"
    )


def _sell_into_book(methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, position: MicroShares) -> LegFill:
    levels, skipped = _select_levels(quote, quote.bids, market)
    step = methodology.step
    # A complete sale ignores the step, so that no remainder stays for ever.
    wanted = shares if shares == position else MicroShares(shares // step * step)
    if not wanted:
        raise LegRefused(Reason.TOO_SMALL, f"{dollars(shares)} shares are less than one step of {dollars(step)}")
    filled: list[Level] = []
    remaining: int = wanted
    for level in levels:
        part = MicroShares(min(remaining, level.shares))
        if part:
            filled.append(Level(level.price, part))
            remaining -= part
        if not remaining:
            return _fill_from_levels(methodology, market, filled, "SELL", whole=shares == position, skipped=skipped)
    raise LegRefused(Reason.DEPTH, f"the book takes {dollars(wanted - remaining)} shares of {dollars(wanted)}{_skipped_text(skipped)}")


def _select_levels(quote: Quote, levels: tuple[Level, ...], market: Market) -> tuple[list[Level], int]:
    """Return the usable levels of one side of a book, best first, and the number of unusable ones. levels: all levels of that side.

    Each level is checked against the tick size of the book, or of the market if the book states none.
    """
    if not levels:
        raise LegRefused(Reason.DEPTH, "the sizes of the book are unknown")
    tick = quote.tick or market.tick
    inside = [level for level in levels if 0 < level.price < MICROS]
    usable = [level for level in inside if not (tick and level.price % tick)]
    if not inside:
        raise LegRefused(Reason.PRICE, f"the price is {dollars(levels[0].price)}; it must be between 0 and 1")
    if not usable:
        raise LegRefused(
            Reason.OFF_TICK,
            f"none of {len(levels)} prices, {dollars(inside[0].price)} the best, is a multiple of the tick {dollars(tick or 0)}",
        )
    return usable, quote.skipped + len(levels) - len(usable)


def _skipped_text(skipped: int) -> str:
    return f"; unusable levels left out: {skipped}" if skipped else ""


def _fill_from_levels(
    methodology: Methodology, market: Market, filled: list[Level], action: Action, *, whole: bool, skipped: int
) -> LegFill:
    shares = MicroShares(sum(level.shares for level in filled))
    if not shares or (market.min_shares and shares < market.min_shares and not whole):
        smallest = dollars(market.min_shares or methodology.step)
        raise LegRefused(Reason.TOO_SMALL, f"{dollars(shares)} shares are below the smallest order of {smallest}")
    amount = MicroDollars(sum(share_value(level.shares, level.price) for level in filled))
    price, fee = SharePrice(divide_half_even(amount * MICROS, shares)), _compute_fee(methodology, market, filled, action)
    return LegFill(shares, price, amount, fee, tuple(filled), MicroDollars(0), skipped)


def _compute_fee(methodology: Methodology, market: Market, filled: list[Level], action: Action) -> MicroDollars:
    """Return the venue's taker fee in micro-dollars. filled: part of each level that was filled."""
    fees = market.fees
    if methodology.fees == "none" or fees == FREE or isinstance(fees, UnknownFees):
        return MicroDollars(0)
    side: Side = "buy" if action == "BUY" else "sell"
    fills = [(dollars(level.shares), dollars(level.price)) for level in filled]
    charged = fees.order_fees(fills, side) if isinstance(fees, KalshiFees) else [fees.fee(*fill, side) for fill in fills]
    return MicroDollars(sum(map(micros, charged)))
