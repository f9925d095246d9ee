"""Iteration over the pages of a listing, with guards against endless listings and invalid pages."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bellwether.errors import PagingError, VenueError
from bellwether.venues.http.page import Params, VenuePage, format_request

#: Holes in a row that are put up with, where they are put up with at all.
MOST_HOLES = 5
#: Repeated requests for a page that looks wrong before it is accepted (empty) or given up (repeated).
SECOND_LOOKS = 2
#: Pages after which a listing is given up: several times what the venues' largest ever had.
MOST_PAGES = 10_000
#: Turns of the event loop in which a request gets from its beginning into the socket.
_TURNS = 12


@dataclass(frozen=True, slots=True)
class Listing:
    """Call whose responses list records page by page.

    items: the response key that contains the records, unless the response is itself the list. identity: the field that identifies a record.
    cursor_parameter, cursor_field: names of a cursor in the call and in the response.
    """

    path: str
    params: Params
    items: str
    identity: str
    cursor_parameter: str = "cursor"
    cursor_field: str = "cursor"

    def params_at(self, cursor: str | None) -> Params:
        """Return the parameters of the page at `cursor`; all others are unchanged."""
        return (*self.params, (self.cursor_parameter, cursor)) if cursor else self.params

    def next_cursor(self, page: VenuePage, cursor: str | None) -> str | None:
        """Return the cursor of the page after `page`, which was requested with `cursor`; None at the end.

        Raises `VenueError` if the response is a bare list, which cannot state whether more pages follow.
        """
        if isinstance(page.json, list):
            cause = f"a bare list where an object with {self.cursor_field!r} was expected"
            raise VenueError(page.request, 1, cause, "Look at the address: it may be of an older interface", kind="malformed")
        found = page.answer.get(self.cursor_field)
        return None if found in (None, "") else str(found)

    def is_hole(self, page: VenuePage, cursor: str | None = None) -> bool:
        """Return True if `page`, requested with `cursor`, is empty although its cursor continues: records may be missing."""
        return not page.items(self.items) and self.next_cursor(page, cursor) is not None

    @property
    def request(self) -> str:
        """The first call as text."""
        return format_request(self.path, self.params)


@dataclass(frozen=True, slots=True)
class OffsetListing(Listing):
    """Listing whose pages are requested by the number of preceding records; it ends with an empty page."""

    cursor_parameter: str = "offset"

    def next_cursor(self, page: VenuePage, cursor: str | None) -> str | None:
        """Return the number of records up to and including `page`."""
        found = len(page.items(self.items))
        return str(int(cursor or 0) + found) if found else None


Fetch = Callable[[str, Params, int], Awaitable[VenuePage]]
#: Waits before the n-th repeated request for a page.
Pause = Callable[[int], Awaitable[None]]


async def _skip_pause(look: int) -> None:
    """Return without waiting."""


async def iterate_pages(
    listing: Listing,
    fetch: Fetch,
    *,
    first: int = 0,
    pause: Pause = _skip_pause,
    holes: bool = False,
    ahead: bool = False,
) -> AsyncGenerator[VenuePage, None]:
    """Yield the pages of `listing`, numbered from `first`; `fetch(path, params, ordinal)` requests each.

    A listing ends with a missing cursor, not with a short page. A page is requested again, up to `SECOND_LOOKS` times, if it is empty, if
    it loops (its cursor or its records repeat an earlier page), or if it has no new records in a listing by offset; if its cursor
    continues, `pause` waits before each retry. After that, an empty page without a cursor is accepted as the end.

    Raises `PagingError`, before the page is yielded, for a loop, for more than `MOST_PAGES` pages, and for an empty page whose cursor
    continues. With `holes`, the caller reports such pages, and only too many of them in a row raise. `ahead` requests the next page before
    the current one is yielded.
    """
    guard = _Guard(listing, MOST_HOLES if holes else 0)

    def look(cursor: str | None, ordinal: int) -> Awaitable[VenuePage]:
        return _request_page(listing, partial(fetch, listing.path, listing.params_at(cursor), ordinal), guard, cursor, pause)

    cursor, ordinal = None, first
    coming = look(cursor, ordinal)
    while True:
        page = await coming
        guard.check(page, cursor)
        cursor, ordinal = listing.next_cursor(page, cursor), ordinal + 1
        if cursor is None:
            yield page
            return
        if not ahead:
            yield page
            coming = look(cursor, ordinal)
            continue
        coming = asyncio.ensure_future(look(cursor, ordinal))
        coming.add_done_callback(_retrieve_exception)
        try:
            await _yield_turns()
            yield page
        except BaseException:
            coming.cancel()
            await asyncio.wait([coming])
            raise


def _retrieve_exception(done: asyncio.Future[VenuePage]) -> None:
    """Retrieve the exception so that asyncio does not warn; a consumer that continues still sees it."""
    if not done.cancelled():
        done.exception()


async def _yield_turns() -> None:
    """Yield to the event loop until a started request has been sent, unless it has to wait for other requests."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def _request_page(
    listing: Listing, fetch: Callable[[], Awaitable[VenuePage]], guard: _Guard, cursor: str | None, pause: Pause
) -> VenuePage:
    """Request a page until it is valid; after the last retry, prefer a response that ends the listing."""
    looks: list[VenuePage] = []
    for number in range(1 + SECOND_LOOKS):
        if looks and listing.next_cursor(looks[-1], cursor) is not None:
            await pause(number)
        looks.append(await fetch())
        if not guard.doubts(looks[-1], cursor):
            return looks[-1]
    return next((page for page in looks if not page.items(listing.items) and not listing.is_hole(page, cursor)), looks[-1])


class _Guard:
    """State of an iteration over pages: cursors, contents and holes so far."""

    def __init__(self, listing: Listing, most_holes: int) -> None:
        self._listing = listing
        self._cursors: set[str | None] = {None}
        self._contents: set[bytes] = set()
        #: Only of listings by offset, which are short; the cursors of the others tell.
        self._listed: set[str] | None = set() if isinstance(listing, OffsetListing) else None
        self._digested: tuple[VenuePage, bytes] | None = None
        self._holes = 0
        self._most_holes = most_holes
        self._pages = 0

    def doubts(self, page: VenuePage, cursor: str | None) -> bool:
        """Return True if the page has to be requested again."""
        items = page.items(self._listing.items)
        if not items or self._loop(page, items, self._listing.next_cursor(page, cursor)) is not None:
            return True
        return self._listed is not None and self._listed.issuperset(self._names(items))

    def check(self, page: VenuePage, cursor: str | None) -> None:
        """Record the page. Raises `PagingError` if it loops, or is one hole too many."""
        items = page.items(self._listing.items)
        following = self._listing.next_cursor(page, cursor)
        self._pages += 1
        if self._pages >= MOST_PAGES and following is not None:
            raise self._error(page, f"the listing has no end: {self._pages} pages, and its cursor goes on")
        self._holes = self._holes + 1 if self._listing.is_hole(page, cursor) else 0
        found = self._loop(page, items, following)
        if found is not None:
            raise self._error(page, f"the listing loops at page {page.ordinal}: {found}")
        if self._holes > self._most_holes:
            raise self._error(
                page, f"the listing has a hole at page {page.ordinal}: empty pages in a row whose cursors go on: {self._holes}"
            )
        self._cursors.add(following)
        if items:
            self._contents.add(self._digest(page, items))
        if self._listed is not None:
            self._listed.update(self._names(items))

    def _error(self, page: VenuePage, cause: str) -> PagingError:
        return PagingError(page.request, 1 + SECOND_LOOKS, cause, "Pages before it are stored; run again later", kind="paging")

    def _loop(self, page: VenuePage, items: list[Any], following: str | None) -> str | None:
        if following is None:
            return None
        if following in self._cursors:
            return f"the cursor {following[:80]!r} came before"
        if items and self._digest(page, items) in self._contents:
            return f"its {len(items)} {self._listing.items or 'records'} are those of an earlier page"
        return None

    def _digest(self, page: VenuePage, items: list[Any]) -> bytes:
        """Return the digest of the listed records, cached for the last page."""
        if self._digested is None or self._digested[0] is not page:
            text = "\0".join(self._names(items)).encode("utf-8", "surrogatepass")
            self._digested = page, hashlib.blake2b(text, digest_size=16).digest()
        return self._digested[1]

    def _names(self, items: list[Any]) -> list[str]:
        return [str(item.get(self._listing.identity)) if isinstance(item, dict) else repr(item) for item in items]
