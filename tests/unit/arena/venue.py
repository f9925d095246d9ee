"""Gamma and the CLOB in a function of the present: eight markets start every Sunday, are quoted on both sides, and resolve after their end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx

FIRST = datetime(2025, 12, 28, tzinfo=UTC)
WEEKS = 32
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
#: Markets per week, and the shares at the best price of each side.
COUNT, DEPTH = 8, "20000"


@dataclass(frozen=True)
class Listed:
    """Market number `number`. It is listed a week before its Sunday, ends on one of the eight days after it, and closes half an hour later."""

    number: int

    @property
    def place(self) -> int:
        return self.number % COUNT

    @property
    def start(self) -> datetime:
        return FIRST + 7 * DAY * (self.number // COUNT - 1)

    @property
    def end(self) -> datetime:
        return self.start + (8 + self.place) * DAY + 6 * HOUR

    @property
    def closed_at(self) -> datetime:
        return self.end + HOUR / 2

    @property
    def outcomes(self) -> tuple[str, str]:
        return ("Alice", "Bob") if self.place == 7 else ("No", "Yes") if self.place == 6 else ("Yes", "No")

    @property
    def tokens(self) -> tuple[str, str]:
        return f"{self.number}1", f"{self.number}2"

    @property
    def winner(self) -> str:
        return self.outcomes[self.number % 3 == 0]

    def cents(self, at: datetime) -> int:
        """Return the midpoint of the first outcome, which changes from hour to hour."""
        return 15 + 10 * self.place + (at - FIRST) // HOUR % 5 - 2


@dataclass
class Venue:
    """Handler of requests. `now`: the venue's clock. `flipped`: markets that resolve to the other outcome. `one_sided`: markets without asks.

    `away`: called before each request; it may raise. `asked`: paths of the requests.
    """

    now: Callable[[], datetime]
    flipped: set[str] = field(default_factory=set)
    one_sided: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    away: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.away()
        self.asked.append(request.url.path)
        headers = {"Date": format_datetime(self.now().astimezone(UTC), usegmt=True)}
        found = self._answer(request)
        return httpx.Response(404 if found is None else 200, headers=headers, content=json.dumps(found or {}))

    def _answer(self, request: httpx.Request) -> Any:
        path, query = request.url.path, request.url.params
        if path == "/markets/keyset":
            return {"markets": [self._market(one) for one in self._listing(query)]}
        if path == "/books":
            tokens = [Listed(int(asked["token_id"][:-1])) for asked in json.loads(request.content)]
            sides = [int(asked["token_id"][-1]) for asked in json.loads(request.content)]
            return [self._book(one, side) for one, side in zip(tokens, sides, strict=True) if not self._is_closed(one)]
        if path == "/prices-history":
            token = query["market"]
            return {"history": list(self._history(Listed(int(token[:-1])), token[-1] == "2", int(query["startTs"]), int(query["endTs"])))}
        return self._flags(Listed(int(path.rpartition("/")[2], 16)))

    def _listing(self, query: httpx.QueryParams) -> list[Listed]:
        asked = query.get_list("id")
        numbers = map(int, asked) if asked else range(WEEKS * COUNT)
        known = [one for one in map(Listed, numbers) if one.start <= self.now() and str(one.number) not in self.gone]
        known = [one for one in known if self._is_closed(one) == (query["closed"] == "true")]
        if "end_date_min" in query:
            first, last = (datetime.fromisoformat(query[name]) for name in ("end_date_min", "end_date_max"))
            known = [one for one in known if first <= one.end <= last]
        return sorted(known, key=lambda one: (one.place, one.number)) if query.get("order") == "volumeNum" else known

    def _is_closed(self, one: Listed) -> bool:
        return one.closed_at <= self.now()

    def _winner(self, one: Listed) -> str:
        return next(name for name in one.outcomes if (name == one.winner) != (str(one.number) in self.flipped))

    def _market(self, one: Listed) -> dict[str, Any]:
        closed, cents = self._is_closed(one), one.cents(self.now())
        prices = [int(name == self._winner(one)) for name in one.outcomes] if closed else [cents / 100, (100 - cents) / 100]
        steps = ["proposed", "resolved"][: 1 + (self.now() >= one.closed_at + HOUR / 2)] if closed else []
        ended = {"closedTime": f"{one.closed_at:%Y-%m-%d %H:%M:%S+00}", "umaEndDate": _zulu(one.closed_at)} if closed else {}
        quotes = {} if str(one.number) in self.one_sided else {"bestAsk": (cents + 1) / 100}
        return {
            "id": str(one.number),
            "question": f"Will event {one.number} happen?",
            "conditionId": f"0x{one.number:064x}",
            "startDate": _zulu(one.start),
            "createdAt": _zulu(one.start),
            "endDate": _zulu(one.end),
            "updatedAt": _zulu(self.now()),
            "outcomes": json.dumps(one.outcomes),
            "outcomePrices": json.dumps([str(price) for price in prices]),
            "clobTokenIds": json.dumps(one.tokens),
            "umaResolutionStatuses": json.dumps(steps),
            **({"umaResolutionStatus": steps[-1]} if steps else {}),
            "volume": str(1000 * (COUNT - one.place)),
            "active": True,
            "closed": closed,
            "archived": False,
            "acceptingOrders": not closed,
            "bestBid": (cents - 1) / 100,
            **quotes,
            "orderPriceMinTickSize": 0.01,
            "orderMinSize": 5,
            "feesEnabled": one.place == 3,
            **({"feeType": "sports_fees_v2"} if one.place == 3 else {}),
            "events": [{"id": str(one.number // 2)}],
            **ended,
        }

    def _book(self, one: Listed, side: int) -> dict[str, Any]:
        cents = one.cents(self.now()) if side == 1 else 100 - one.cents(self.now())
        bids, asks = ([{"price": str((cents + step) / 100), "size": DEPTH}] for step in (-1, 1))
        return {
            "market": f"0x{one.number:064x}",
            "asset_id": one.tokens[side - 1],
            "timestamp": str(int(self.now().timestamp() * 1000)),
            "hash": "h",
            "bids": bids,
            "asks": [] if str(one.number) in self.one_sided else asks,
            "tick_size": "0.01",
            "min_order_size": "5",
            "neg_risk": False,
        }

    def _history(self, one: Listed, second: bool, start: int, end: int) -> Iterator[dict[str, Any]]:
        at = max(one.start, datetime.fromtimestamp(start - start % 3600, UTC))
        while at <= min(one.end, self.now(), datetime.fromtimestamp(end, UTC)):
            cents = 100 - one.cents(at) if second else one.cents(at)
            yield {"t": int(at.timestamp()), "p": cents / 100}
            at += HOUR

    def _flags(self, one: Listed) -> dict[str, Any]:
        winner = self._winner(one)
        tokens = [
            {"token_id": token, "outcome": name, "price": 0.5, "winner": name == winner}
            for token, name in zip(one.tokens, one.outcomes, strict=True)
        ]
        return {
            "condition_id": f"0x{one.number:064x}",
            "closed": True,
            "accepting_orders": False,
            "is_50_50_outcome": False,
            "tokens": tokens,
        }


def _zulu(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
