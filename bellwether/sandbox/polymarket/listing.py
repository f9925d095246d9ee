"""The generated world as listed by Polymarket: the same events with the same truth, but with other texts, ids, quotes and resolutions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from bellwether.sandbox.polymarket.ids import Ids
from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket, MarketFees
from bellwether.sandbox.polymarket.resolution import HALF, LATEST_RESOLUTION, NO, YES, draw_delay, draw_steps
from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, midnight
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.catalogue import QuestionFamily, load_catalogue
from bellwether.sandbox.world.events import FAR_FUTURE, LONGEST_LIFE
from bellwether.sandbox.world.model import Key, Market, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws
from bellwether.sandbox.world.tape import draw_trading

#: Maximum days from the day on which an event is answered to its announced end, and from the announced end to that day.
LATEST_END, EARLIEST_END = 48, 1

#: Bits of the index of an event, and of the position of a market, in the number of a market.
_INDEX_BITS, _POSITION_BITS = 4, 4
_DAYS = 1 << 16

#: Instants from which markets are created on Protocol V2, state fees, and pay the raised fees of sports.
_V2_SINCE, _FEES_SINCE, _SPORTS_RAISED = (midnight(date(2026, month, 1)) for month in (10, 4, 7))
_V2_SHARE = 0.2
#: Category of the generated world -> name in the venue's fee types, and rate of the schedule.
_FEES = {
    "Sports": ("sports", 0.03),
    "Crypto": ("crypto", 0.07),
    "Financials": ("finance", 0.04),
    "Companies": ("finance", 0.04),
    "Politics": ("politics", 0.04),
    "Elections": ("politics", 0.04),
    "Science and Technology": ("tech", 0.04),
    "Economics": ("economics", 0.05),
    "Entertainment": ("culture", 0.05),
    "Climate and Weather": ("weather", 0.05),
}
_LABELS = {"Climate and Weather": "Weather", "Economics": "Economy", "Financials": "Finance", "Science and Technology": "Tech"}
_CONDITION = ("If ", ", then the market resolves to Yes.")
_UNANSWERED = "If the question cannot be answered by the source, or has no answer, this market will resolve 50-50."


def build_slug(text: str, number: str) -> str:
    """Build a slug from a text, with a number that makes it unique."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower().replace("'", "")
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:70].strip("-")
    return f"{slug}-{number}" if slug else number


def choose_fees(category: str, created: int) -> MarketFees:
    """Choose the fees of a market. category: in the generated world. created: instant of the market's creation."""
    name, rate = _FEES.get(category, ("", 0.0))
    if not rate or created < _FEES_SINCE:
        return MarketFees()
    if name == "sports" and created >= _SPORTS_RAISED:
        return MarketFees("sports_fees_v2", 0.05, 0.15)
    return MarketFees("crypto_fees_v2", rate, 0.2) if name == "crypto" else MarketFees(f"{name}_fees", rate, 0.25)


def _draw_end(family: QuestionFamily, market: Market, draw: RandomDraws) -> int | None:
    """Draw the announced end of an event; None if it announces none."""
    luck, life = draw.unit(), market.life
    if life.scheduled == FAR_FUTURE or luck < 0.006:
        return None
    end = life.scheduled if family.early == "deadline" else life.closes
    if family.early == "result" or luck < 0.15:
        return end // (12 * HOUR) * (12 * HOUR)
    return end if luck < 0.7 else -(-end // DAY) * DAY


def _texts(event: WorldEvent, market: Market, is_game: bool) -> tuple[str, str, str, tuple[str, str]]:
    """Return question, rules, label in the event, and outcomes of a market."""
    if is_game:
        sides = (event.markets[0].terms["yes_sub_title"], event.markets[1].terms["yes_sub_title"])
        rules = " ".join(f"If {side} wins, this market will resolve to “{side}”." for side in sides)
        return event.body["title"].replace(" vs ", " vs. "), f"{rules}\n\n{_UNANSWERED}", "", sides
    first, last = _CONDITION
    condition = market.terms["rules_primary"].removeprefix(first).removesuffix(last)
    rules = f"This market will resolve to “Yes” if {condition}. Otherwise, this market will resolve to “No”."
    label = market.terms["yes_sub_title"] if len(event.markets) > 1 else ""
    return market.terms["title"], f"{rules}\n\n{_UNANSWERED}", label, ("Yes", "No")


@dataclass(frozen=True, slots=True)
class _Plan:
    """Properties that all markets of an event share. proposed: instant from which its resolution is proposed."""

    event: WorldEvent
    is_game: bool
    ends: int | None
    void: bool
    proposed: int
    fees: MarketFees


class GeneratedPolymarket:
    """Polymarket over a generated world. At any instant it lists all markets created by then."""

    def __init__(self, world: GeneratedWorld) -> None:
        self._world = world
        self._ids = Ids(world.seed, world.code)
        self._event = lru_cache(maxsize=1 << 14)(self._draw_event)

    def _draw_event(self, event: WorldEvent) -> ListedEvent:
        """Convert an event of the generated world to an event of Polymarket. The two markets of a game between two opponents become one."""
        family = load_catalogue()[event.series_ticker].family
        draw = RandomDraws(self._world.seed, Purpose.POLYMARKET, event.home, event.index)
        is_game = family.pair and family.category == "Sports"
        plan = _Plan(
            event=event,
            is_game=is_game,
            ends=_draw_end(family, event.markets[0], draw),
            void=any(market.determination.result in ("void", "scalar") for market in event.markets) or draw.chance(0.004),
            proposed=event.markets[0].life.closes + draw_delay(draw),
            fees=choose_fees(family.category, event.created),
        )
        markets = tuple(self._draw_market(plan, market, draw) for market in event.markets[: 1 if is_game else None])
        event_id = self._ids.event(event.home << _INDEX_BITS | event.index)
        title = markets[0].question if len(markets) == 1 else event.body["title"]
        return ListedEvent(
            key=event.key,
            id=event_id,
            slug=build_slug(title, event_id),
            title=title,
            tag=_LABELS.get(family.category, family.category),
            exclusive=event.body["mutually_exclusive"] and len(markets) > 1,
            created=event.created,
            markets=markets,
        )

    def _draw_market(self, plan: _Plan, market: Market, draw: RandomDraws) -> ListedMarket:
        """Draw one market of an event."""
        event, seed = plan.event, self._world.seed
        place = (event.home, event.index, market.key[-1])
        number = (event.home << _INDEX_BITS | event.index) << _POSITION_BITS | market.key[-1]
        question, description, label, outcomes = _texts(event, market, plan.is_game)
        swapped = draw.chance(0.04) and not plan.is_game
        is_v2 = draw.chance(_V2_SHARE) and event.created >= _V2_SINCE
        grid = "deci_cent" if draw.chance(0.85) else "linear_cent"
        value = HALF if plan.void else YES if market.latent.pays else NO
        market_id = self._ids.market(number)
        return ListedMarket(
            key=market.key,
            number=number,
            id=market_id,
            condition_id=self._ids.condition(number, is_v2),
            question_id=self._ids.question(number),
            slug=build_slug(question, market_id),
            question=question,
            description=description,
            group_title=label,
            outcomes=(outcomes[1], outcomes[0]) if swapped else outcomes,
            tokens=self._ids.tokens(number, is_v2),
            is_v2=is_v2,
            yes=int(swapped),
            claim=market.latent,
            trading=draw_trading((seed, Purpose.POLYMARKET_TRADING, *place), grid, draw),
            created=event.created,
            ends=plan.ends,
            steps=draw_steps(plan.proposed + draw.integer(0, 3 * MINUTE), value, draw),
            fees=plan.fees,
            lacks_token=draw.chance(0.006),
        )

    def day(self, home: int) -> tuple[ListedEvent, ...]:
        """Return the events whose questions are answered on day number `home`."""
        return tuple(self._event(event) for event in self._world.day(home))

    def events(
        self, now: int, *, closed: bool | None = None, ends: tuple[int | None, int | None] = (None, None), after: Key | None = None
    ) -> Iterator[ListedEvent]:
        """Yield the events created by `now`, by sort key.

        closed: events without a market that is (or is not) closed may be left out. ends: likewise those without a market that ends within
        these instants. after: likewise those without a market that has a later key.
        """
        low, high = ends
        first, last = 0, to_day_number(now) + LONGEST_LIFE + 1
        if low is not None:
            first = max(first, to_day_number(low) - LATEST_END)
        if high is not None:
            last = min(last, to_day_number(high) + EARLIEST_END)
        if closed is False:
            first = max(first, to_day_number(now) - LATEST_RESOLUTION)
        if closed is True:
            last = min(last, to_day_number(now))
        return (self._event(event) for event in self._world.listed(now, range(first, last + 1), after))

    def _numbered(self, number: int | None) -> ListedEvent | None:
        """Return the event with this number, even if it is not listed yet; None for an unknown number."""
        if number is None or not 0 <= number >> _INDEX_BITS < _DAYS:
            return None
        events = self._world.day(number >> _INDEX_BITS)
        return next((self._event(event) for event in events if event.index == number & ((1 << _INDEX_BITS) - 1)), None)

    def find_event(self, event_id: str) -> ListedEvent | None:
        """Return the event with this id, even if it is not listed yet; None for an unknown id."""
        return self._numbered(self._ids.event_number(event_id))

    def find_pair(self, name: str) -> tuple[ListedEvent, ListedMarket] | None:
        """Return the event and the market with this id, condition id or token id, even if they are not listed yet; None for an unknown one."""
        number = self._ids.market_number(name)
        event = self._numbered(None if number is None else number >> _POSITION_BITS)
        market = next((market for market in event.markets if market.number == number), None) if event else None
        if event is None or market is None:
            return None
        names = (market.id, market.condition_id, market.condition_id.ljust(66, "0"), *market.tokens)
        return (event, market) if name in names else None

    def listed(self, name: str) -> ListedMarket | None:
        """Return the market with this id, condition id or token id, even if it is not listed yet; None for an unknown one."""
        pair = self.find_pair(name)
        return pair[1] if pair else None
