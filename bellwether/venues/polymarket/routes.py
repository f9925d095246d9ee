"""Routes of Polymarket's Gamma and CLOB, and the venue's documented limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from urllib.parse import parse_qs, quote, urlsplit

import orjson

from bellwether.venues.http.page import Params, VenueCall, VenuePage, drop_missing, split_batches
from bellwether.venues.http.paging import Listing

#: Markets of a page, and most ids of a call.
MOST_MARKETS = 100
#: Tokens of one POST.
MOST_TOKENS = 500
#: Longest span of one call of past prices, in days.
MOST_DAYS = 15
#: Minutes between two past prices, if the venue still has them.
FINE_MINUTES = 60
#: Minutes between two prices of resolved markets whose finer prices the venue has deleted:
#: https://github.com/Polymarket/py-clob-client/issues/216.
COARSE_MINUTES = 720
#: Statuses of the CLOB for unknown markets and tokens.
UNKNOWN = frozenset({400, 404})


def markets(
    *,
    closed: bool,
    active: bool | None = None,
    end_date_min: datetime | None = None,
    end_date_max: datetime | None = None,
    order: str | None = None,
    ascending: bool | None = None,
    ids: Sequence[str] = (),
) -> Listing:
    """Build GET /markets/keyset: Gamma's closed or, with closed=False, open markets with their tags.

    end_date_min, end_date_max: aware times that bound the scheduled end. order: field to sort by, in camel case, such as volumeNum. ids: at
    most `MOST_MARKETS`.
    """
    chosen = {
        "closed": _flag(closed),
        "active": _flag(active),
        "end_date_min": _instant(end_date_min),
        "end_date_max": _instant(end_date_max),
        "order": order,
        "ascending": _flag(ascending),
    }
    params = (
        *drop_missing(chosen),
        *(("id", id_) for id_ in ids),
        ("include_tag", "true"),
        ("limit", str(MOST_MARKETS)),
    )
    return _keyset("/markets/keyset", params, "markets")


def events(*, closed: bool, ids: Sequence[str] = ()) -> Listing:
    """Build GET /events/keyset: Gamma's closed or, with closed=False, open events, with their markets."""
    params = (("closed", str(closed).lower()), *(("id", id_) for id_ in ids), ("limit", "100"))
    return _keyset("/events/keyset", params, "events")


def books(token_ids: Iterable[str]) -> list[VenueCall]:
    """Build POST /books: the order books of any number of tokens, 500 per call."""
    tokens = [{"token_id": token_id} for token_id in token_ids]
    return [VenueCall("/books", body=orjson.dumps(batch)) for batch in split_batches(tokens, MOST_TOKENS)]


def prices_history(token_id: str, *, start: datetime, end: datetime, fidelity_minutes: int) -> VenueCall:
    """Build GET /prices-history: prices of one token between aware times, in whole seconds, every `fidelity_minutes`."""
    params = {
        "market": token_id,
        "startTs": str(int(start.timestamp())),
        "endTs": str(int(end.timestamp())),
        "fidelity": str(fidelity_minutes),
    }
    return VenueCall("/prices-history", tuple(params.items()), required="history")


def clob_market(condition_id: str) -> VenueCall:
    """Build GET /markets/{condition id}: one market of the CLOB, with its winner."""
    return VenueCall(f"/markets/{quote(condition_id, safe='')}")


def time() -> VenueCall:
    """Build GET /time: the venue's clock in seconds since 1970."""
    return VenueCall("/time")


def parse_requested_tokens(page: VenuePage) -> list[str]:
    """Parse the token id in the request of a page of past prices; none for other pages."""
    return parse_qs(urlsplit(page.request.removeprefix("GET ")).query).get("market", [])


def _keyset(path: str, params: Params, items: str) -> Listing:
    return Listing(path, params, items, "id", "after_cursor", "next_cursor")


def _flag(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def _instant(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if at else None
