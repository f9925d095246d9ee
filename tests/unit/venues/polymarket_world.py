"""A small Polymarket with a few markets that pages its listings and records requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from tests.unit.venues.polymarket_objects import clob_market, event, market
from tests.unit.venues.venue import answer

HOUR = 3600


def token(number: int, position: int) -> str:
    """Return the token of an outcome of a market."""
    return f"{number}{position}".rjust(77, "9")


def ending(number: int, end: str, *, of: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a resolved market of the event `of` with the scheduled end `end`. It really ended an hour before."""
    closed = datetime.fromisoformat(end).timestamp() - HOUR
    closed_time = datetime.fromtimestamp(closed, tz=datetime.fromisoformat(end).tzinfo).isoformat(sep=" ")[:19]
    usual = {
        "endDate": end,
        "closedTime": f"{closed_time}+00",
        "clobTokenIds": json.dumps([token(number, 0), token(number, 1)]),
        "events": [{"id": str(of), "slug": f"e{of}", "title": f"Event {of}"}],
    }
    return market(number, **usual | changes)


def seconds(text: str) -> float:
    """Convert a time in the venue's format to seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


@dataclass
class World:
    """Data of Gamma and the CLOB, and the requests received."""

    markets: list[dict[str, Any]] = field(default_factory=list)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    winners: dict[str, str | None] = field(default_factory=dict)
    unknown_to_clob: frozenset[str] = frozenset()
    coarse_only: frozenset[str] = frozenset()
    unpriced: frozenset[str] = frozenset()
    page_size: int = 2
    date: str = "Fri, 20 Mar 2026 08:30:00 GMT"
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, query = request.url.path, request.url.params
        self.asked.append(request.url.raw_path.decode())
        response = self._clob(path, query) if request.url.host.startswith("clob") else self._gamma(path, query)
        response.headers["Date"] = self.date
        return response

    def _gamma(self, path: str, query: httpx.QueryParams) -> httpx.Response:
        closed = query["closed"] == "true"
        if path == "/markets/keyset" and (ids := query.get_list("id")):
            return self._page("markets", [item for item in self.markets if item["closed"] == closed and item["id"] in ids], query)
        if path == "/markets/keyset" and query.get("order") == "closedTime":
            items = [item for item in self.markets if item["closed"]]
            return self._page("markets", sorted(items, key=lambda item: item["closedTime"], reverse=True), query)
        if path == "/markets/keyset":
            window = (
                seconds(query.get("end_date_min", "1970-01-01T00:00:00Z")),
                seconds(query.get("end_date_max", "2099-01-01T00:00:00Z")),
            )
            items = [
                item
                for item in self.markets
                if item["closed"] == closed and "endDate" in item and window[0] <= seconds(item["endDate"]) <= window[1]
            ]
            return self._page("markets", items, query)
        events = [self.events[name] for name in query.get_list("id") if name in self.events]
        return self._page("events", [item for item in events if item["closed"] == closed], query)

    def _page(self, key: str, items: list[Any], query: httpx.QueryParams) -> httpx.Response:
        start = int(query.get("after_cursor") or 0)
        end = start + self.page_size
        return answer({key: items[start:end], **({"next_cursor": str(end)} if end < len(items) else {})})

    def _clob(self, path: str, query: httpx.QueryParams) -> httpx.Response:
        if path == "/prices-history":
            if query["market"] in self.unpriced or (query["market"] in self.coarse_only and int(query["fidelity"]) < 720):
                return answer({"history": []})
            first = -(-int(query["startTs"]) // HOUR) * HOUR
            return answer({"history": [{"t": at, "p": 0.25} for at in range(first, int(query["endTs"]) + 2 * HOUR, 12 * HOUR)]})
        condition = path.rsplit("/", 1)[-1]
        # The CLOB answers with the longer of both forms of a Protocol V2 id.
        padded = condition.ljust(66, "0")
        market = next((item for item in self.markets if item["conditionId"].ljust(66, "0") == padded), None)
        if market is None or market["id"] in self.unknown_to_clob:
            return answer({"error": "market not found"}, status=404)
        number = int(market["id"])
        winner = self.winners.get(market["id"], "Yes")
        outcomes = json.loads(market["outcomes"])
        tokens = [
            {"token_id": token(number, place), "outcome": name, "price": 0.5, "winner": name == winner}
            for place, name in enumerate(outcomes)
        ]
        return answer(clob_market(number, tokens=tokens, condition_id=padded))


def ordinary() -> World:
    """Five markets of 14 March in three events, one of which is still open, and markets of other days."""
    return World(
        markets=[
            ending(11, "2026-03-14T00:00:00Z"),
            ending(12, "2026-03-14T12:00:00Z"),
            ending(21, "2026-03-14T18:30:00Z", of=2, outcomes='["Up", "Down"]', outcomePrices='["0", "1"]'),
            ending(22, "2026-03-14T23:59:59Z", of=2),
            ending(31, "2026-03-14T15:00:00Z", of=3),
            ending(32, "2026-03-15T00:00:00Z", of=3),
            ending(41, "2026-03-13T23:59:59Z", of=4),
        ],
        events={str(number): event(number, closed=number != 3) for number in (1, 2, 3, 4)},
        winners={"21": "Down"},
    )
