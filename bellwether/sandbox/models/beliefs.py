"""Knowledge of the sandbox's models: the market that a prompt is about, and its probability a day before the close."""

from __future__ import annotations

import hashlib
import html
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bellwether.sandbox.replayer import captured_results
from bellwether.sandbox.timestamps import DAY, to_datetime
from bellwether.sandbox.world.events import LONGEST_LIFE
from bellwether.sandbox.world.latent_paths import PathClaim
from bellwether.sandbox.world.model import Market, to_day_number
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws

if TYPE_CHECKING:
    from bellwether.sandbox.polymarket import GeneratedPolymarket
    from bellwether.sandbox.polymarket.model import ListedMarket
    from bellwether.sandbox.world import GeneratedWorld

#: A model knows the probability as of this time before the close (microseconds).
LEAD = DAY

_LABELLED = re.compile(r"^\W*(?:question|market|title)\b\W*[:=]\s*(.+)$", re.IGNORECASE)


def normalize_text(text: str) -> str:
    """Normalize case, spaces and escaped HTML of a text for comparison."""
    return " ".join(html.unescape(text).split()).casefold()


def hash_text(text: str) -> int:
    """Hash a text to an integer of 64 bits."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a question. key: seed of the model's noise. probability: of YES, as the model knows it."""

    key: int
    probability: float


@dataclass(frozen=True, slots=True)
class MarketEstimate:
    """Knowledge of a model about a market in the arena. key: seed of the model's noise. probability: that `outcome` wins."""

    key: int
    outcome: str
    probability: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Market that a text may be about. Its rules, close and label distinguish it from markets with the same question."""

    id: str
    claim: PathClaim
    created: int
    opens: int
    close: int
    rules: str
    label: str

    def probability(self, now: int, at: int | None = None) -> float:
        """Return the probability that a model knows: as of `at`, by default a day before the close, but not before the opening or after `now`."""
        known = min(now, max(self.opens, self.close - LEAD if at is None else at))
        return _probability(self.claim, known)

    def fits(self, context: str) -> tuple[bool, bool, bool]:
        """Return whether the text `context` contains the market's rules, the date of its close, and its label, as three flags."""
        close = to_datetime(self.close).date().isoformat()
        rules, dated, labelled = (bool(text) and text in context for text in (self.rules, close, self.label))
        return rules, dated, labelled


def _probability(claim: PathClaim, at: int) -> float:
    return float(claim.probabilities_at(np.asarray([at], dtype=np.int64))[0])


def _of_kalshi(market: Market, now: int) -> _Candidate:
    life, terms = market.life, market.terms
    rules, label = normalize_text(terms["rules_primary"]), normalize_text(terms["yes_sub_title"])
    return _Candidate(market.ticker, market.latent, life.created, life.opens, life.announced_close(now), rules, label)


def _of_polymarket(market: ListedMarket, now: int) -> _Candidate:
    announced = now + LEAD if market.ends is None else market.ends
    close = market.answered if now >= market.answered else announced
    rules, label = normalize_text(market.description), normalize_text(market.group_title)
    return _Candidate(market.id, market.claim, market.created, market.opens, close, rules, label)


class _Index:
    """Index from questions to market ids, extended day by day.

    questions: yields (question, market id) of a day by its number.
    """

    def __init__(self, questions: Callable[[int], Iterator[tuple[str, str]]]) -> None:
        self._questions = questions
        self._lock = threading.Lock()
        self._days = 0
        self._ids: dict[str, list[str]] = {}

    def at(self, now: int) -> Mapping[str, list[str]]:
        """Return the index from questions to market ids with all markets listed at `now`, and possibly with later ones."""
        days = to_day_number(now) + LONGEST_LIFE + 2
        with self._lock:
            for home in range(self._days, days):
                for question, market_id in self._questions(home):
                    self._ids.setdefault(normalize_text(question), []).append(market_id)
            self._days = max(self._days, days)
        return self._ids


class Truth:
    """Knowledge of the models: finds the market that a text is about, and the probability that models know.

    A model knows the latent probability as of 24 hours before the market's close, or of the opening of a shorter market, but not as of a
    time after the sandbox's clock. Before the close, the announced close is used. This instant does not depend on the outcome, so the
    knowledge is exactly calibrated.

    A text that fits several markets equally gets the mean of their known probabilities. A text about no market of the world gets a
    probability that is drawn from the text itself.

    Attributes:
        world: the generated world.
        polymarket: the same world as listed by Polymarket.
    """

    def __init__(self, world: GeneratedWorld, polymarket: GeneratedPolymarket) -> None:
        self.seed = world.seed
        self._world = world
        self._polymarket = polymarket
        self._indexes = [_Index(self._of_world), _Index(self._of_polymarket)]

    def _of_world(self, home: int) -> Iterator[tuple[str, str]]:
        """Yield (question, market id) for the markets of day number `home`, in the venue's wording and in that of the clean tables."""
        for event in self._world.day(home):
            for market in event.markets:
                title, label = market.terms["title"], market.terms["yes_sub_title"]
                yield title, market.ticker
                yield f"{title} — {label}", market.ticker

    def _of_polymarket(self, home: int) -> Iterator[tuple[str, str]]:
        for event in self._polymarket.day(home):
            for market in event.markets:
                yield market.question, market.id

    def by_id(self, market_id: str, now: int, at: int | None = None) -> Subject | None:
        """Find a listed market by its ticker or id; None if unknown. at: instant of the probability, for trading at a past time; None: a day
        before the close.
        """
        candidate = self._candidate(market_id, now)
        return Subject(hash_text(candidate.id), candidate.probability(now, at)) if candidate else None

    def estimate(self, market_id: str, date: int, now: int) -> MarketEstimate | None:
        """Return what a model knows of a market in the arena: a Polymarket market, a Kalshi contract, or a Kalshi event with two outcomes.
        date: midnight of the date in the prompt.

        The probability is as of `now` on this date, else as of midnight. None for a market that is not listed at `now`, or whose question
        is already answered.
        """
        market = self._arena_market(market_id)
        at = now if date <= now < date + DAY else date
        if market is None:
            return None
        name, outcome, created, claim = market
        return None if created > now or at >= claim.closes else MarketEstimate(hash_text(name), outcome, _probability(claim, at))

    def _arena_market(self, market_id: str) -> tuple[str, str, int, PathClaim] | None:
        """Return the id of an arena market, the outcome it is about, its creation, and the claim that determines its probability."""
        market = self._polymarket.listed(market_id)
        if market is not None:
            return market.id, market.outcomes[market.yes], market.created, market.claim
        contract = self._world.market(market_id)
        if contract is not None:
            return contract.ticker, "Yes", contract.life.created, contract.latent
        event = self._world.event(market_id)
        if event is None or len(event.markets) != 2:
            return None
        first = event.markets[0]
        return event.ticker, str(first.terms["yes_sub_title"]).strip(), event.created, first.latent

    def _candidate(self, market_id: str, now: int) -> _Candidate | None:
        """Return the market with this id as a candidate, if it is listed at `now`."""
        market = self._world.market(market_id)
        listed = self._polymarket.listed(market_id) if market is None else None
        candidate = _of_kalshi(market, now) if market else _of_polymarket(listed, now) if listed else None
        return candidate if candidate and candidate.created <= now else None

    def _best(self, ids: Iterable[str], context: str, now: int) -> Subject | None:
        """Return the market that fits the text `context` best. If several fit equally, return one subject with their mean probability."""
        candidates = [candidate for market_id in dict.fromkeys(ids) if (candidate := self._candidate(market_id, now))]
        best = max((candidate.fits(context) for candidate in candidates), default=None)
        fitting = [candidate for candidate in candidates if candidate.fits(context) == best]
        if not fitting:
            return None
        mean = math.fsum(candidate.probability(now) for candidate in fitting) / len(fitting)
        return Subject(hash_text(" ".join(sorted(candidate.id for candidate in fitting))), mean)

    def find(self, text: str, now: int) -> Subject | None:
        """Return the market whose question is a line of the text, or None."""
        context, questions = normalize_text(text), [normalize_text(question) for question in _possible_questions(text)]
        for index in self._indexes:
            ids = index.at(now)
            for question in questions:
                if subject := self._best(ids.get(question, ()), context, now):
                    return subject
        return None

    def subject(self, text: str, now: int) -> Subject:
        """Return the market that a text is about; for a text about no market, an invented subject."""
        return self.find(text, now) or self.invent(text)

    def invent(self, text: str) -> Subject:
        """Return an invented subject for a text about no market; its probability, uniform on [0.05, 0.95), depends only on the text."""
        key = hash_text(normalize_text(text))
        return Subject(key, RandomDraws(self.seed, Purpose.MODEL, key).uniform(0.05, 0.95))


def captured_subject(ticker: str, price: float) -> Subject | None:
    """Return a market of the captures as a subject, with a probability halfway from its price to its result; None for other markets."""
    result = captured_results().get(ticker)
    return None if result is None else Subject(hash_text(ticker), (price + (result == "yes")) / 2)


def _possible_questions(text: str) -> Iterator[str]:
    """Yield the parts of a text that may be a question: labelled lines, then all lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    yield from (match[1] for line in lines if (match := _LABELLED.match(line)))
    yield from lines
