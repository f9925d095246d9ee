"""Fill policies: at which price and in which size a leg (bet or sale) is filled, given the quote of its side.

mid: at the midpoint, for any number of micro-shares, regardless of depth. realistic: against the resting orders of the other side, best first,
on the market's ticks, in whole steps of shares, at least the minimum order, all or nothing. Without a midpoint neither fills, because the
position could not be marked.
"""

from __future__ import annotations

from bellwether.arena.decision import LegRefused, Reason
from bellwether.arena.facts import Action, Trade
from bellwether.arena.market import KalshiFees, Level, Market, Quote, UnknownFees
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import MICROS, divide_half_even, dollars, micros, share_value, shares_for
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE, Side

#: A filled trade, and the resting orders that are its counterparty; a fill at the midpoint has those at the best price of the other side.
Filled = tuple[Trade, tuple[Level, ...]]


def fill_buy(draft: Trade, methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> Filled:
    """Fill a purchase for up to `amount` micro-dollars, exactly `amount` under the policy `mid`. Raises `LegRefused`.

    draft: the trade without mid, shares, price, amount and fee, which are added.
    """
    draft = _add_midpoint(draft, methodology, market, quote)
    return (_buy_at_mid if methodology.fill == "mid" else _buy_from_book)(draft, methodology, market, quote, amount)


def fill_sell(
    draft: Trade, methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, *, position: MicroShares
) -> Filled:
    """Fill a sale of `shares`. draft: as in `fill_buy`. position: number of shares held. Both are micro-shares. Raises `LegRefused`."""
    draft = _add_midpoint(draft, methodology, market, quote)
    if methodology.fill == "mid":
        return _sell_at_mid(draft, methodology, market, quote, shares)
    return _sell_into_book(draft, methodology, market, quote, shares, is_whole=shares == position)


def _add_midpoint(draft: Trade, methodology: Methodology, market: Market, quote: Quote) -> Trade:
    """Return the trade with the midpoint. Raises `LegRefused` if it cannot be filled at any size."""
    if quote.mid is None:
        missing = " and no ".join(name for name, price in (("bid", quote.bid), ("ask", quote.ask)) if price is None)
        raise LegRefused(Reason.NO_MIDPOINT, f"the book has no {missing}{_skipped_text(quote.skipped)}")
    if methodology.fees != "none" and isinstance(market.fees, UnknownFees):
        raise LegRefused(Reason.FEES, market.fees.reason)
    return draft._replace(mid=quote.mid)


def _buy_at_mid(draft: Trade, methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> Filled:
    price = draft.mid
    if not 0 < price <= MICROS:
        raise LegRefused(Reason.PRICE, f"the price is {dollars(price)}; it must be above 0 and 1 at most")
    return _fill_at_mid(draft, methodology, market, quote.asks, filled=Level(price, shares_for(amount, price)), amount=amount)


def _sell_at_mid(draft: Trade, methodology: Methodology, market: Market, quote: Quote, shares: MicroShares) -> Filled:
    price = draft.mid
    if not 0 <= price <= MICROS:
        raise LegRefused(Reason.PRICE, f"the price is {dollars(price)}; it must be from 0 to 1")
    return _fill_at_mid(draft, methodology, market, quote.bids, filled=Level(price, shares), amount=share_value(shares, price))


def _fill_at_mid(
    draft: Trade, methodology: Methodology, market: Market, resting: tuple[Level, ...], *, filled: Level, amount: MicroDollars
) -> Filled:
    """Fill a leg at the midpoint, and match it with the orders at the best price of the other side (`resting`). The value of the other shares is
    unmatched; it is None if the sizes are unknown.
    """
    taken, unmatched = tuple[Level, ...](), None
    if resting:
        matched = MicroShares(min(filled.shares, resting[0].shares))
        taken, unmatched = (Level(resting[0].price, matched),), share_value(MicroShares(filled.shares - matched), filled.price)
    fee = _compute_fee(methodology, market, [filled], draft.action)
    trade = draft._replace(shares=filled.shares, price=filled.price, amount=amount, fee=fee, unmatched=unmatched)
    return trade, taken


def _buy_from_book(draft: Trade, methodology: Methodology, market: Market, quote: Quote, amount: MicroDollars) -> Filled:
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
            return _fill_from_levels(draft._replace(skipped_levels=skipped), methodology, market, filled, is_whole=False)
    bought = dollars(sum(level.shares for level in filled))
    raise LegRefused(
        Reason.DEPTH, f"the book offers {bought} shares, which is less than {dollars(amount)} dollars buy{_skipped_text(skipped)}"
    )


def _sell_into_book(draft: Trade, methodology: Methodology, market: Market, quote: Quote, shares: MicroShares, *, is_whole: bool) -> Filled:
    levels, skipped = _select_levels(quote, quote.bids, market)
    step = methodology.step
    # A complete sale ignores the step, so that no remainder stays for ever.
    wanted = shares if is_whole else MicroShares(shares // step * step)
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
            return _fill_from_levels(draft._replace(skipped_levels=skipped), methodology, market, filled, is_whole=is_whole)
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


def _fill_from_levels(draft: Trade, methodology: Methodology, market: Market, filled: list[Level], *, is_whole: bool) -> Filled:
    shares = MicroShares(sum(level.shares for level in filled))
    if not shares or (market.min_shares and shares < market.min_shares and not is_whole):
        smallest = dollars(market.min_shares or methodology.step)
        raise LegRefused(Reason.TOO_SMALL, f"{dollars(shares)} shares are below the smallest order of {smallest}")
    amount = MicroDollars(sum(share_value(level.shares, level.price) for level in filled))
    price, fee = SharePrice(divide_half_even(amount * MICROS, shares)), _compute_fee(methodology, market, filled, draft.action)
    return draft._replace(shares=shares, price=price, amount=amount, fee=fee, unmatched=MicroDollars(0)), tuple(filled)


def _compute_fee(methodology: Methodology, market: Market, filled: list[Level], action: Action) -> MicroDollars:
    """Return the venue's taker fee in micro-dollars. filled: part of each level that was filled."""
    fees = market.fees
    if methodology.fees == "none" or fees == FREE or isinstance(fees, UnknownFees):
        return MicroDollars(0)
    side: Side = "buy" if action == "BUY" else "sell"
    fills = [(dollars(level.shares), dollars(level.price)) for level in filled]
    charged = fees.order_fees(fills, side) if isinstance(fees, KalshiFees) else [fees.fee(*fill, side) for fill in fills]
    return MicroDollars(sum(map(micros, charged)))
