"""Objects of Gamma and of the CLOB as of an instant."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import orjson

from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.resolution import HALF
from bellwether.sandbox.timestamps import MINUTE, SECOND, format_time, to_datetime
from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.tape import DOLLAR, Level

Body = dict[str, Any]

#: Amounts are integers of 1/100000 dollar.
MONEY = 100_000


def format_decimal(value: int, digits: int) -> str:
    """Format value / 10**digits as text without trailing zeros: (4700, 4) is 0.47."""
    whole, rest = divmod(value, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")


def format_seconds(at: int) -> str:
    """Format an instant as 2026-07-24T00:00:16Z."""
    return format_time(at // SECOND * SECOND)


def _list_text(values: tuple[str, ...]) -> str:
    """Format texts as the venue does: as a JSON list inside a string."""
    return "[" + ", ".join(orjson.dumps(value).decode() for value in values) + "]"


def _twice_yes(market: ListedMarket, at: int) -> int | None:
    """Return the price of YES in 1/2000 dollar: twice the proposed or final value of a closed market, else twice the mid price; None before
    the opening.
    """
    step, quote = market.step(at), market.quote(at)
    if step is not None and step.closed:
        return 2 * step.value
    return quote.bid + quote.ask if quote else None


def _outcome_prices(market: ListedMarket, at: int) -> tuple[int, int] | None:
    """Return the prices of both outcomes in 1/2000 dollar; None before the opening."""
    yes = _twice_yes(market, at)
    if yes is None:
        return None
    no = 2 * DOLLAR - yes
    return (no, yes) if market.yes else (yes, no)


def _quote_fields(market: ListedMarket, at: int) -> Body:
    """Build the fields with the quote of the first outcome. Without a bid the field is left out; without an ask it is 1."""
    quote = market.quote(at)
    if quote is None:
        return {"spread": 1, "bestAsk": 1}
    bid, ask, last = quote.bid, quote.ask, quote.last
    if market.yes:
        bid, ask, last = DOLLAR - ask, DOLLAR - bid, DOLLAR - last if last else 0
    return {"spread": (ask - bid) / DOLLAR, "bestBid": bid / DOLLAR, "bestAsk": ask / DOLLAR, "lastTradePrice": last / DOLLAR}


def _resolution_fields(market: ListedMarket, at: int) -> Body:
    """Build the fields with the state of the resolution."""
    step = market.step(at)
    fields: Body = {}
    if market.is_v2:
        fields["resolutionStatus"] = "resolved" if step and step.final else "active"
    else:
        fields["umaResolutionStatuses"] = _list_text(step.history if step else ())
        if step is not None:
            fields["umaResolutionStatus"] = step.status
    if step is not None and step.closed:
        fields["closedTime"] = f"{to_datetime(market.closes).isoformat(sep=' ')[:19]}+00"
    if step is not None and step.final:
        fields["umaEndDate"] = format_seconds(next(later.at for later in market.steps if later.final))
    return fields


def _trading_ids(market: ListedMarket) -> Body:
    """Build the fields with trading ids: token ids on Protocol V1, position ids on V2."""
    tokens = market.tokens[:1] if market.lacks_token else market.tokens
    return {"version": "v2", "clobTokenIds": "", "positionIds": tokens} if market.is_v2 else {"clobTokenIds": _list_text(tokens)}


def _fee_fields(market: ListedMarket) -> Body:
    fees = market.fees
    if fees.type is None:
        return {"feesEnabled": False, "feeType": None}
    schedule = {"rate": fees.rate, "exponent": 1, "takerOnly": True, "rebateRate": fees.rebate}
    return {"makerBaseFee": 1000, "takerBaseFee": 1000, "feesEnabled": True, "feeType": fees.type, "feeSchedule": schedule}


def _liquidity(market: ListedMarket, at: int) -> int:
    """Return the dollars in the book, in 1/100000."""
    bids, asks = market.levels(at)
    return sum(price * size for price, size in bids) + sum((DOLLAR - price) * size for price, size in asks)


def _updated(market: ListedMarket, at: int) -> int:
    """Return the instant of the object's last change: while the market trades that of its quotes, later that of its resolution."""
    step = market.step(at)
    if step is not None:
        return step.at
    return market.created if at < market.opens else market.opens + (min(at, market.answered) - market.opens) // SLOT * SLOT


def build_market(market: ListedMarket, event: ListedEvent, at: int) -> Body:
    """Build a market's object in Gamma, without its event and tags."""
    prices, volume, liquidity = _outcome_prices(market, at), market.turnover(at), _liquidity(market, at)
    body: Body = {
        "id": market.id,
        "question": market.question,
        "conditionId": market.condition_id,
        "slug": market.slug,
        "resolutionSource": "",
        "description": market.description,
        "outcomes": _list_text(market.outcomes),
        "active": True,
        "closed": market.closed(at),
        "archived": False,
        "groupItemTitle": market.group_title,
        "questionID": market.question_id,
        "enableOrderBook": True,
        "orderPriceMinTickSize": market.tick / DOLLAR,
        "orderMinSize": 5,
        "acceptingOrders": market.opens - MINUTE <= at < market.closes,
        "negRisk": event.exclusive,
        "startDate": format_time(market.opens),
        "createdAt": format_time(market.created),
        "updatedAt": format_time(_updated(market, at)),
        **_trading_ids(market),
        **_quote_fields(market, at),
        **_resolution_fields(market, at),
        **_fee_fields(market),
        "liquidity": format_decimal(liquidity, 5),
        "liquidityNum": liquidity / MONEY,
    }
    if prices is not None:
        body["outcomePrices"] = _list_text(tuple(format_decimal(5 * price, 4) for price in prices))
    if market.ends is not None:
        body["endDate"] = format_seconds(market.ends)
    if volume:
        body |= {"volume": format_decimal(volume, 5), "volumeNum": volume / MONEY}
    return body


def build_event(event: ListedEvent, at: int) -> Body:
    """Build an event's object in Gamma, without markets and tags."""
    closed = at >= event.closes
    body: Body = {
        "id": event.id,
        "ticker": event.slug,
        "slug": event.slug,
        "title": event.title,
        "description": event.markets[0].description,
        "resolutionSource": "",
        "startDate": format_time(event.markets[0].opens),
        "active": True,
        "closed": closed,
        "archived": False,
        "liquidity": sum(_liquidity(market, at) for market in event.markets) / MONEY,
        "volume": sum(market.turnover(at) for market in event.markets) / MONEY,
        "createdAt": format_time(event.created),
        "updatedAt": format_time(max(_updated(market, at) for market in event.markets)),
        "enableOrderBook": True,
        "negRisk": event.exclusive,
    }
    if event.ends is not None:
        body["endDate"] = format_seconds(event.ends)
    if closed:
        body["closedTime"] = format_seconds(event.closes)
    return body


def build_tags(event: ListedEvent) -> list[Body]:
    """Build the objects of an event's tags."""
    return [{"id": str(100 + sum(event.tag.encode())), "label": event.tag, "slug": event.tag.lower().replace(" ", "-")}]


def build_clob_market(market: ListedMarket, event: ListedEvent, at: int) -> Body:
    """Build a market's object in the CLOB; its tokens have no winner before the resolution."""
    closed, winner, step = market.closed(at), market.winner(at), market.step(at)
    prices = _outcome_prices(market, at) or (DOLLAR, DOLLAR)
    fee = 1000 if market.fees.type else 0
    return {
        "enable_order_book": not closed,
        "active": True,
        "closed": closed,
        "archived": False,
        "accepting_orders": market.opens - MINUTE <= at < market.closes,
        "minimum_order_size": 5,
        "minimum_tick_size": market.tick / DOLLAR,
        "condition_id": market.condition_id,
        "question_id": market.question_id,
        "question": market.question,
        "market_slug": market.slug,
        "end_date_iso": format_seconds(market.ends) if market.ends is not None else None,
        "maker_base_fee": fee,
        "taker_base_fee": fee,
        "neg_risk": event.exclusive,
        "is_50_50_outcome": step is not None and step.final and step.value == HALF,
        "tokens": [
            {"token_id": market.tokens[side], "outcome": market.outcomes[side], "price": price / (2 * DOLLAR), "winner": side == winner}
            for side, price in enumerate(prices)
        ],
        "tags": [event.tag, "All"],
    }


def _wire_levels(levels: list[Level]) -> list[Body]:
    """Format levels as in a response, best last."""
    return [{"price": format_decimal(price, 3), "size": format_decimal(size, 2)} for price, size in reversed(levels)]


def build_book(market: ListedMarket, event: ListedEvent, side: int, at: int) -> Body | None:
    """Build the order book of one outcome's token (0 or 1, `side`); None before the opening and from the close on."""
    quote = market.quote(at)
    if quote is None:
        return None
    bids, asks = market.levels(at)
    last = quote.last
    if side != market.yes:
        bids, asks = ([(DOLLAR - price, size) for price, size in levels] for levels in (asks, bids))
        last = DOLLAR - last if last else 0
    body = {
        "market": market.condition_id,
        "asset_id": market.tokens[side],
        "timestamp": str(_updated(market, at) // 1000),
        "bids": _wire_levels(bids),
        "asks": _wire_levels(asks),
        "min_order_size": "5",
        "tick_size": format_decimal(market.tick, 3),
        "neg_risk": event.exclusive,
        "last_trade_price": f"{last / DOLLAR:.3f}" if last else "",
    }
    return {**body, "hash": hashlib.sha1(orjson.dumps(body), usedforsecurity=False).hexdigest()}


def build_prices(market: ListedMarket, side: int, first: int, last: int, step: int) -> list[Body]:
    """Build the price history of one outcome's token (0 or 1, `side`): the prices at the multiples of `step` within [first, last] at which
    the market trades.
    """
    begin = -(-max(first, market.opens) // step)
    end = min(last, market.closes - 1) // step
    if begin > end:
        return []
    times = np.arange(begin, end + 1, dtype=np.int64) * step
    doubled = market.twice_prices(times)
    if side != market.yes:
        doubled = 2 * DOLLAR - doubled
    seconds, prices = (times // SECOND).tolist(), (doubled / (2 * DOLLAR)).tolist()
    return [{"t": at, "p": price} for at, price in zip(seconds, prices, strict=True)]
