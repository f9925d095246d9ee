"""Events that Polymarket lists in the sandbox, by day: most events of the generated world, and short markets that only Polymarket has.

Days are numbered from 2025-01-01, which is 0. The day of an event (`home`) is the one on which its last question is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from bellwether.sandbox.polymarket.fees import choose_fees
from bellwether.sandbox.polymarket.ids import Ids, build_slug
from bellwether.sandbox.polymarket.model import V2_SINCE, ListedEvent, ListedMarket, Recurrence, Tag, event_number, market_number
from bellwether.sandbox.polymarket.resolution_steps import (
    HALF,
    NO,
    YES,
    ResolutionStep,
    draw_delay,
    draw_legacy,
    resolve_automatically,
    resolve_by_uma,
    resolve_silently,
)
from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, midnight, to_datetime
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.catalogue import QuestionFamily, load_catalogue
from bellwether.sandbox.world.events import draw_trading, format_day
from bellwether.sandbox.world.latent_paths import SLOT, Path, PathClaim
from bellwether.sandbox.world.model import FIRST_DAY, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import DrawCache, RandomDraws
from bellwether.sandbox.world.timetable import FAR_FUTURE, LONGEST_LIFE

#: Maximum days from the day of an event's last answer to the announced end, from the announced end to that day, and from a market's
#: creation to that day. Listings rely on these bounds.
LATEST_END, EARLIEST_END, EARLIEST_CREATION = 48, 1, LONGEST_LIFE + 1

_SHARE = 0.93
#: Number of markets on Protocol V2 among 256 created since `V2_SINCE`.
_V2_SHARE = 51
_GAMES = ("Games", "Soccer", "Totals", "Player props")
_LABELS = {"Climate and Weather": "Weather", "Economics": "Economy", "Financials": "Finance", "Science and Technology": "Tech"}
_RECURRING_TAGS = ("Crypto", "Recurring", "Up or Down")
_FIRST_RECURRING = 8
_EASTERN = 5 * HOUR
_LONGEST_NOTICE = 5 * HOUR
_CONDITION = ("If ", ", then the market resolves to Yes.")
_UNANSWERED = "If the question cannot be answered by the source, or has no answer, this market will resolve 50-50."


class Purpose(IntEnum):
    """Use of a random stream; part of the stream's seed. The values differ from those of the generated world."""

    EVENT = 101
    MARKET = 102
    TRADING = 103
    BOOK = 104
    RECURRING = 105
    PATH = 106


@lru_cache(maxsize=1)
def tags() -> dict[str, Tag]:
    """Build all tags by label."""
    families = {series.family.prefix: series.family for series in load_catalogue().series}.values()
    labels = {_label(family.category) for family in families}.union(_RECURRING_TAGS, *(family.tags for family in families))
    return {label: Tag(str(101 + place), label, label.lower().replace(" ", "-")) for place, label in enumerate(sorted(labels))}


def _created(claim: PathClaim, draw: RandomDraws) -> int:
    """Draw the instant at which an event is created, shortly before its markets are."""
    return claim.opens - _LONGEST_NOTICE - draw.integer(MINUTE, 10 * MINUTE)


def _label(category: str) -> str:
    """Return the tag's label for a category."""
    return _LABELS.get(category, category)


@dataclass(frozen=True, slots=True)
class _EventPlan:
    """Properties that all markets of an event share, from which they are built.

    ends, starts: as in `ListedMarket`. delay: from the answer to its proposal.
    """

    seed: int
    ids: Ids
    home: int
    index: int
    category: str
    group: str
    void: bool
    delay: int
    created: int
    ends: int | None
    starts: int | None
    recurring: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Sort key of the event in listings: events of the latest creation day first, within a day by id."""
        return -to_day_number(self.created), int(self.ids.event(event_number(self.home, self.index)))

    def build(
        self, title: str, labels: Iterable[str], markets: tuple[ListedMarket, ...], source: str, recurrence: Recurrence | None = None
    ) -> ListedEvent:
        """Build the event with its markets."""
        number = event_number(self.home, self.index)
        return ListedEvent(
            key=self.key,
            number=number,
            id=self.ids.event(number),
            slug=build_slug(title, self.ids.event(number)),
            title=title,
            description=markets[0].description,
            source=source,
            tags=tuple(tags()[label] for label in labels),
            group=self.group,
            recurrence=recurrence,
            created=self.created,
            markets=markets,
        )


@dataclass(frozen=True, slots=True)
class _MarketTexts:
    """Texts of a market."""

    question: str
    description: str
    group_title: str
    outcomes: tuple[str, str]


def _market(plan: _EventPlan, position: int, claim: PathClaim, texts: _MarketTexts) -> ListedMarket:
    """Draw one market of the event. position: its number in the event."""
    ids, number = plan.ids, market_number(plan.home, plan.index, position)
    draw = RandomDraws(plan.seed, Purpose.MARKET, plan.home, plan.index, position)
    created = claim.opens - draw.integer(10 * MINUTE, _LONGEST_NOTICE)
    grid = "deci_cent" if draw.chance(0.85) else "linear_cent"
    trading = draw_trading((plan.seed, Purpose.TRADING, plan.home, plan.index, position), grid, False, draw)
    swapped = draw.chance(0.04) and texts.outcomes == ("Yes", "No")
    # Not drawn: no draw depends on it.
    is_v2 = created >= V2_SINCE and ids.digest("condition", number)[0] < _V2_SHARE
    hides_prices = draw.chance(0.004)
    legacy = draw_legacy(claim.closes, draw)
    value = HALF if plan.void else YES if claim.pays else NO
    steps: tuple[ResolutionStep, ...]
    if plan.recurring:
        steps = resolve_automatically(claim.closes, value, draw)
    elif legacy:
        steps = resolve_silently(claim.closes, value, legacy, draw)
    else:
        steps = resolve_by_uma(claim.closes + plan.delay + draw.integer(0, 3 * MINUTE), value, draw)
    return ListedMarket(
        key=(*plan.key, position),
        number=number,
        id=ids.market(number),
        condition_id=ids.structured_condition(number) if is_v2 else ids.text("condition", number),
        question_id=f"{plan.group[:-2]}{position:02x}" if plan.group else ids.text("question", number),
        slug=build_slug(texts.question, ids.market(number)),
        question=texts.question,
        description=texts.description,
        group_title=texts.group_title,
        outcomes=("No", "Yes") if swapped else texts.outcomes,
        tokens=(ids.position(0, number), ids.position(1, number)) if is_v2 else (ids.token(0, number), ids.token(1, number)),
        version="v2" if is_v2 else "v1",
        yes=int(swapped),
        claim=claim,
        trading=trading,
        created=created,
        ends=plan.ends,
        starts=plan.starts,
        steps=steps,
        fees=choose_fees(plan.category, created, plan.recurring),
        recurring=plan.recurring,
        legacy="" if plan.recurring else legacy,
        hides_prices=hides_prices,
        # Drawn last: no other draw depends on it.
        lacks_token=draw.chance(0.02) and plan.recurring,
    )


def _ends(family: QuestionFamily, event: WorldEvent, draw: RandomDraws) -> tuple[int | None, int | None]:
    """Draw the announced end of an event and, for a game, the start; None if missing."""
    closes, scheduled = max(market.life.closes for market in event.markets), event.markets[0].life.scheduled
    luck = draw.unit()
    if scheduled == FAR_FUTURE or luck < 0.006:
        return None, None
    if family.tags[0] in _GAMES:
        starts = (closes - draw.integer(2 * HOUR, 4 * HOUR)) // HOUR * HOUR
        return starts, starts
    if family.early == "result" or luck < 0.15:
        return (scheduled if family.early == "deadline" else closes) // (12 * HOUR) * (12 * HOUR), None
    exact = scheduled if family.early == "deadline" else closes
    return (exact if luck < 0.7 else -(-exact // DAY) * DAY), None


def _texts(event: WorldEvent, family: QuestionFamily) -> Iterator[tuple[PathClaim, _MarketTexts]]:
    """Yield the claim and the texts of each market of an event. The two markets of a game between two opponents become one."""
    markets = event.markets
    first, last = _CONDITION
    if family.pair and family.category == "Sports":
        sides = (markets[0].terms["yes_sub_title"], markets[1].terms["yes_sub_title"])
        rules = " ".join(f"If {side} wins, this market will resolve to “{side}”." for side in sides)
        question = event.body["title"].replace(" vs ", " vs. ")
        yield _claim(markets[0].latent), _MarketTexts(question, f"{rules}\n\n{_UNANSWERED}", "", sides)
        return
    for market in markets:
        condition = market.terms["rules_primary"].removeprefix(first).removesuffix(last)
        rules = f"This market will resolve to “Yes” if {condition}. Otherwise, this market will resolve to “No”."
        label = market.terms["yes_sub_title"] if len(markets) > 1 else ""
        yield _claim(market.latent), _MarketTexts(market.terms["title"], f"{rules}\n\n{_UNANSWERED}", label, ("Yes", "No"))


def _claim(latent: object) -> PathClaim:
    if not isinstance(latent, PathClaim):
        raise TypeError(f"Polymarket lists no combos, but was given {latent!r}")
    return latent


def _listed(seed: int, ids: Ids, event: WorldEvent) -> ListedEvent:
    """Convert an event of the generated world to an event of Polymarket."""
    home, index = event.home, event.index
    number, family = event_number(home, index), load_catalogue().by_ticker[event.series_ticker].family
    draw = RandomDraws(seed, Purpose.EVENT, home, index)
    texts = list(_texts(event, family))
    ends, starts = _ends(family, event, draw)
    plan = _EventPlan(
        seed=seed,
        ids=ids,
        home=home,
        index=index,
        category=family.category,
        group=ids.text("group", number)[:-2] + "00" if event.body["mutually_exclusive"] and len(texts) > 1 else "",
        void=any(market.determination.result in ("void", "scalar") for market in event.markets) or draw.chance(0.004),
        delay=draw_delay(draw),
        created=_created(texts[0][0], draw),
        ends=ends,
        starts=starts,
    )
    markets = tuple(_market(plan, position, claim, market_texts) for position, (claim, market_texts) in enumerate(texts))
    title = markets[0].question if len(markets) == 1 else event.body["title"]
    return plan.build(title, (_label(family.category), *family.tags), markets, family.source[1])


def _clock_text(at: int) -> str:
    """Format an instant in US Eastern time: Apr 10, 2025, 3PM ET."""
    local = to_datetime(at - _EASTERN)
    return f"{format_day(local.date())}, {local.hour % 12 or 12}{'AM' if local.hour < 12 else 'PM'} ET"


def _recurring(seed: int, ids: Ids, home: int, index: int, draw: RandomDraws) -> ListedEvent:
    """Draw a short market that only Polymarket has: whether a coin rises or falls within an hour or a day."""
    begin = midnight(FIRST_DAY) + home * DAY
    coin = draw.choose([series.name for series in load_catalogue().series if series.family.prefix == "COIN"])
    period, length = ("hourly", HOUR) if draw.chance(0.7) else ("daily", DAY)
    closes = begin + draw.integer(1, 23) * HOUR
    path = Path((seed, Purpose.PATH, home, index), draw.normal(), 3, 0.0, (closes - length - DAY) // SLOT * SLOT, closes)
    title = f"{coin} Up or Down - {_clock_text(closes - length) if length == HOUR else _clock_text(closes)}"
    rules = f"This market will resolve to “Up” if the price of {coin} is not lower at the end of the {period[:-2]} named in the title"
    claim = PathClaim(path, lower=0.0)
    plan = _EventPlan(
        seed=seed,
        ids=ids,
        home=home,
        index=index,
        category="Crypto",
        group="",
        void=False,
        delay=0,
        created=_created(claim, draw),
        ends=closes,
        starts=closes - length,
        recurring=True,
    )
    texts = _MarketTexts(title, f"{rules} than at its beginning. Otherwise, it will resolve to “Down”.", "", ("Up", "Down"))
    market = _market(plan, 0, claim, texts)
    name = f"{coin} Up or Down {period.capitalize()}"
    series = Recurrence(str(10_000 + sum(name.encode())), name.lower().replace(" ", "-"), name, period)
    return plan.build(title, _RECURRING_TAGS, (market,), "https://prices.example", series)


class Listing:
    """Events of each day, drawn from (seed, day) on first use and cached.

    `day(home)` returns the events whose last question is answered on that day, `created(day)` those created on that day.
    """

    def __init__(self, world: GeneratedWorld) -> None:
        self._world = world
        self.ids = Ids(world.seed)
        self.day = DrawCache(self._draw_day, 1024)
        self.created = DrawCache(self._collect_created, 1024)

    def _draw_day(self, home: int) -> tuple[ListedEvent, ...]:
        """Draw the events of day number `home`."""
        seed = self._world.seed
        draw = RandomDraws(seed, Purpose.RECURRING, home)
        events = [
            _listed(seed, self.ids, event)
            for event in self._world.day(home).events
            if not event.is_combo and RandomDraws(seed, Purpose.EVENT, home, event.index, 0).chance(_SHARE)
        ]
        added = range(_FIRST_RECURRING, _FIRST_RECURRING + draw.integer(3, 6))
        return (*events, *(_recurring(seed, self.ids, home, index, draw) for index in added))

    def _collect_created(self, day: int) -> tuple[ListedEvent, ...]:
        """Return the events created on day number `day`, by sort key."""
        homes = range(max(day, 0), day + EARLIEST_CREATION + 1)
        events = (event for home in homes for event in self.day(home) if to_day_number(event.created) == day)
        return tuple(sorted(events, key=lambda event: event.key))
