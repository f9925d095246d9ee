"""Gamma objects of the generated world as of an instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import orjson

from bellwether.sandbox.polymarket import quotes
from bellwether.sandbox.polymarket.ids import Ids
from bellwether.sandbox.polymarket.model import V2_SINCE, ListedEvent, ListedMarket, Recurrence, Tag
from bellwether.sandbox.polymarket.quotes import MONEY, MarketQuote, Turnover
from bellwether.sandbox.polymarket.resolution_steps import HALF, YES
from bellwether.sandbox.polymarket.source import Object
from bellwether.sandbox.timestamps import MINUTE, SECOND, format_time, midnight, to_datetime
from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.tape import DOLLAR, NO_ASK, NO_BID

_FIRST_Z_UMA_END = midnight(date(2025, 10, 1))
_FRAYED = ("0.9999989871426158", "0.0000010128573842")


@dataclass(frozen=True, slots=True)
class MarketFigures:
    """Quote, turnover and liquidity (1/100000 dollars) of a market at an instant."""

    quote: MarketQuote | None
    turnover: Turnover
    liquidity: int


def compute_figures(market: ListedMarket, seed: int, at: int) -> MarketFigures:
    """Compute quote, turnover and liquidity of a market at an instant; after the close they no longer change."""
    at = min(at, market.closes)
    quote = quotes.compute_quote(market, at)
    liquidity = 0
    if quote is not None and not market.closed(at):
        bids, asks = quotes.build_levels(market, seed, quote)
        liquidity = sum(price * size for price, size in bids) + sum((DOLLAR - price) * size for price, size in asks)
    return MarketFigures(quote, quotes.compute_turnover(market, at), liquidity)


def _texts(values: tuple[str, str] | tuple[str, ...]) -> str:
    """Format texts as the venue does: as a JSON list inside a string."""
    return "[" + ", ".join(orjson.dumps(value).decode() for value in values) + "]"


def _in_order(market: ListedMarket, yes: str, no: str) -> tuple[str, str]:
    """Return the values for YES and NO in the order of the market's outcomes."""
    return (yes, no) if market.yes == 0 else (no, yes)


def _prices(market: ListedMarket, figures: MarketFigures, at: int) -> tuple[str, str] | None:
    """Return the texts of the outcomes' prices; None if the object has no prices."""
    step = market.step(at)
    if step is not None and step.closed:
        if step.value is None:
            return "0", "0"
        if step.value == HALF:
            return "0.5", "0.5"
        corner = _FRAYED if market.legacy == "frayed" else ("1", "0")
        return _in_order(market, *(corner if step.value == YES else (corner[1], corner[0])))
    if figures.quote is None or market.hides_prices:
        return None
    yes = 5 * figures.quote.twice_price
    return _in_order(market, format_decimal(yes, 4), format_decimal(10_000 - yes, 4))


def _quotes(market: ListedMarket, figures: MarketFigures, at: int) -> Object:
    """Build the fields with the quote and price changes of the first outcome. Without a bid the field is left out; without an ask it is
    1.
    """
    quote = figures.quote
    if quote is None:
        return {"spread": 1, "lastTradePrice": 0, "bestAsk": 1}
    bid, ask, last, sign = quote.bid, quote.ask, quote.last, 1
    if market.yes:
        bid, ask, last, sign = DOLLAR - ask, DOLLAR - bid, DOLLAR - last if last else 0, -1
    fields: Object = {name: sign * change / (2 * DOLLAR) for name, change in quotes.compute_changes(market, at).items() if change}
    fields |= {"spread": (ask - bid) / DOLLAR, "lastTradePrice": last / DOLLAR}
    if bid > NO_BID:
        fields["bestBid"] = bid / DOLLAR
    return {**fields, "bestAsk": ask / DOLLAR if ask < NO_ASK else 1}


def _volumes(traded: Turnover, suffix: str = "") -> Object:
    names = {"volume24hr": traded.day, "volume1wk": traded.week, "volume1mo": traded.month, "volume1yr": traded.year}
    return {name + suffix: to_dollars(amount) for name, amount in names.items()}


def _updated(market: ListedMarket, at: int) -> int:
    """Return the instant of the object's last change: while the market trades that of its quotes, later that of its resolution."""
    step = market.step(at)
    if step is not None:
        return step.at
    if at < market.opens:
        return market.created
    return max(market.opens, (min(at, market.answered) - market.opens) // SLOT * SLOT + market.opens)


def _resolution(market: ListedMarket, at: int) -> Object:
    """Build the fields with the state of the resolution."""
    step = market.step(at)
    if market.version == "v2":
        status = "resolved" if step and step.final else "active" if at >= market.opens else "inactive"
        fields: Object = {"resolutionStatus": status}
    else:
        fields = {"umaResolutionStatuses": _texts(step.history if step else ())}
    if step is None:
        return fields
    if step.status is not None and market.version == "v1":
        fields["umaResolutionStatus"] = step.status
    if step.closed:
        fields["closedTime"] = format_spaced(market.closes)
    if step.final:
        ended = next(later.at for later in market.steps if later.final)
        fields["umaEndDate"] = format_seconds(ended) if ended >= _FIRST_Z_UMA_END else format_spaced(ended)
        fields["automaticallyResolved"] = market.recurring
    return fields


def _times(market: ListedMarket, at: int) -> Object:
    fields: Object = {
        "startDate": format_milliseconds(market.opens + 500_000),
        "startDateIso": format_date(market.opens),
        "createdAt": format_time(market.created),
        "updatedAt": format_time(_updated(market, at)),
        "acceptingOrdersTimestamp": format_seconds(market.opens - MINUTE),
    }
    if market.ends is not None:
        fields |= {"endDate": format_seconds(market.ends), "endDateIso": format_date(market.ends)}
    if market.starts is not None and market.recurring:
        fields["eventStartTime"] = format_seconds(market.starts)
    elif market.starts is not None:
        fields["gameStartTime"] = format_spaced(market.starts)
    return fields


def _trading_ids(market: ListedMarket, ids: Ids, at: int) -> Object:
    """Build the fields with trading ids: token ids on Protocol V1, position ids on V2. Some V1 markets also have position ids, for use in
    combos.
    """
    tokens = market.tokens[:1] if market.lacks_token else market.tokens
    if market.version == "v2":
        return {"version": "v2", "clobTokenIds": "", "positionIds": tokens}
    fields: Object = {"clobTokenIds": _texts(tokens)}
    if at < V2_SINCE:
        return fields
    combos = {} if market.number % 2 else {"positionIds": [ids.position(side, market.number) for side in (0, 1)]}
    return {**fields, "version": "v1", **combos}


def build_market(market: ListedMarket, event: ListedEvent, ids: Ids, figures: MarketFigures, at: int) -> Object:
    """Build a market's object, without its event and tags."""
    closed, prices = market.closed(at), _prices(market, figures, at)
    body: Object = {
        "id": market.id,
        "question": market.question,
        "conditionId": market.condition_id,
        "slug": market.slug,
        "resolutionSource": event.source if market.recurring else "",
        "image": f"https://images.example/{int(market.id) % 97}.png",
        "icon": f"https://images.example/{int(market.id) % 97}.png",
        "description": market.description,
        "outcomes": _texts(market.outcomes),
    }
    if prices is not None:
        body["outcomePrices"] = _texts(prices)
    body |= {
        "active": True,
        "closed": closed,
        "archived": _archived(market, at),
        "new": False,
        "featured": False,
        "restricted": True,
        "marketMakerAddress": "",
        "submitted_by": ids.address("address", event.number),
        "groupItemTitle": market.group_title,
        "groupItemThreshold": str(market.key[2]),
        "questionID": market.question_id,
        "enableOrderBook": True,
        "orderPriceMinTickSize": market.tick / DOLLAR,
        "orderMinSize": 5,
        **_trading_ids(market, ids, at),
        "umaBond": "500",
        "umaReward": "2" if market.recurring else "5",
        "acceptingOrders": at >= market.opens - MINUTE and not closed,
        "negRisk": bool(event.group),
        "negRiskOther": False,
        "negRiskRequestID": ids.text("request", market.number) if event.group else "",
        **({"negRiskMarketID": event.group} if event.group else {}),
        "ready": False,
        "funded": False,
        "approved": True,
        "hasReviewedDates": True,
        "clearBookOnStart": not market.recurring,
        "rewardsMinSize": 50 if market.recurring else 20,
        "rewardsMaxSpread": 4.5 if market.recurring else 3.5,
        **_times(market, at),
        **_quotes(market, figures, at),
        **_resolution(market, at),
        **market.fees.fields(),
    }
    if figures.turnover.total:
        total = figures.turnover.total
        body |= {"volume": format_decimal(total, 5), "volumeNum": to_dollars(total), "volumeClob": to_dollars(total)}
        body |= {**_volumes(figures.turnover), **_volumes(figures.turnover, "Clob")}
    liquidity = figures.liquidity
    return {
        **body,
        "liquidity": format_decimal(liquidity, 5),
        "liquidityNum": to_dollars(liquidity),
        "liquidityClob": to_dollars(liquidity),
    }


def _archived(market: ListedMarket, at: int) -> bool:
    return market.legacy == "zero" and market.closed(at)


def build_event(event: ListedEvent, figures: dict[int, MarketFigures], at: int) -> Object:
    """Build an event's object, without markets and tags. figures: quote, turnover and liquidity of its listed markets, by number."""
    markets = [market for market in event.markets if market.number in figures]
    traded = [figures[market.number].turnover for market in markets]
    total = Turnover(*(sum(getattr(turnover, name) for turnover in traded) for name in Turnover.__slots__))
    liquidity = sum(figures[market.number].liquidity for market in markets)
    closed = find_close(event, at) is not None
    body: Object = {
        "id": event.id,
        "ticker": event.slug,
        "slug": event.slug,
        "title": event.title,
        "description": event.description,
        "resolutionSource": event.source if event.recurrence else "",
        "startDate": format_time(event.opens + 900_000),
        "creationDate": format_time(event.opens + 899_000),
        "image": f"https://images.example/e{int(event.id) % 89}.png",
        "icon": f"https://images.example/e{int(event.id) % 89}.png",
        "active": True,
        "closed": closed,
        "archived": closed and all(_archived(market, at) for market in markets),
        "new": False,
        "featured": False,
        "restricted": True,
        "liquidity": to_dollars(liquidity),
        "volume": to_dollars(total.total),
        "openInterest": 0,
        "createdAt": format_time(event.created),
        "updatedAt": format_time(max([event.created, *(_updated(market, at) for market in markets)])),
        **_volumes(total),
        "enableOrderBook": True,
        "liquidityClob": to_dollars(liquidity),
        "negRisk": bool(event.group),
        "enableNegRisk": bool(event.group),
        "commentCount": int(event.id) % 53,
        "showAllOutcomes": True,
        "showMarketImages": False,
    }
    if event.ends is not None:
        body["endDate"] = format_seconds(event.ends)
    if event.group:
        body["negRiskMarketID"] = event.group
    if closed:
        body["closedTime"] = format_seconds(event.closes)
    if event.recurrence:
        body["seriesSlug"] = event.recurrence.slug
    return body


def find_close(event: ListedEvent, at: int) -> int | None:
    """Return the instant at which the event closed, because its last market did; None while it is open."""
    return event.closes if at >= event.closes else None


def build_tag(tag: Tag) -> Object:
    """Build the object of a tag."""
    return {"id": tag.id, "label": tag.label, "slug": tag.slug, "forceShow": False, "createdAt": "2024-12-01T12:00:00Z"}


def build_series(series: Recurrence) -> list[Object]:
    """Build the list of series of a recurring event, which has one object."""
    names = {"id": series.id, "ticker": series.slug, "slug": series.slug, "title": series.title}
    return [{**names, "seriesType": "single", "recurrence": series.frequency, "active": True, "closed": False}]


def format_decimal(value: int, digits: int) -> str:
    """Format value / 10**digits as text without trailing zeros: (4700, 4) is 0.47."""
    whole, rest = divmod(value, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")


def to_dollars(amount: int) -> float:
    """Convert 1/100000 dollars to dollars."""
    return amount / MONEY


def format_date(at: int) -> str:
    """Format the UTC date of an instant."""
    return to_datetime(at).date().isoformat()


def format_seconds(at: int) -> str:
    """Format an instant as 2026-07-24T00:00:16Z."""
    return f"{to_datetime(at // SECOND * SECOND).isoformat()[:19]}Z"


def format_milliseconds(at: int) -> str:
    """Format an instant as 2026-07-24T00:00:16.500Z."""
    return f"{to_datetime(at).isoformat(timespec='milliseconds')[:23]}Z"


def format_spaced(at: int) -> str:
    """Format an instant as 2026-07-24 00:00:16+00."""
    return f"{to_datetime(at // SECOND * SECOND).isoformat(sep=' ')[:19]}+00"
