"""Iteration over the pages of a listing, which detects endless listings and invalid pages.

A hole is an empty page whose cursor continues. A loop is a cursor or content that an earlier page had.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bellwether.errors import PagingError, VenueError
from bellwether.venues.http.page import Params, VenuePage, format_request

#: Maximum number of consecutive holes (empty pages whose cursor continues), if the caller accepts holes.
MOST_HOLES = 5
#: Retries of a doubtful page, before it is accepted (if empty) or an error (if repeated).
PAGE_RETRIES = 2
#: Maximum number of pages of a listing, several times the number of the venues' largest.
MOST_PAGES = 10_000
#: Turns of the event loop that a request needs to reach the socket.
_TURNS = 12


@dataclass(frozen=True, slots=True)
class Listing:
    """Route that returns records page by page.

    items: key of the records in a response that is not itself the list. identity: field that identifies a record. cursor_parameter,
    cursor_field: names of the cursor in the request and in the response.
    """

    path: str
    params: Params
    items: str
    identity: str
    cursor_parameter: str = "cursor"
    cursor_field: str = "cursor"

    def params_at(self, cursor: str | None) -> Params:
        """Return the parameters that request the page at `cursor`."""
        return (*self.params, (self.cursor_parameter, cursor)) if cursor else self.params

    def next_cursor(self, page: VenuePage, cursor: str | None) -> str | None:
        """Return the cursor of the page after `page`, which was requested with `cursor`; None after the last page.

        Raises `VenueError` if the response is a bare list, which cannot state whether more pages follow.
        """
        if isinstance(page.json, list):
            cause = f"a bare list where an object with {self.cursor_field!r} was expected"
            raise VenueError(page.request, 1, cause, "Look at the address: it may be of an older interface", kind="malformed")
        following = page.answer.get(self.cursor_field)
        return None if following in (None, "") else str(following)

    def is_hole(self, page: VenuePage, cursor: str | None = None) -> bool:
        """Return True for a hole: `page` is empty although its cursor continues, so that records may be missing."""
        return not page.items(self.items) and self.next_cursor(page, cursor) is not None

    @property
    def request(self) -> str:
        """The request of the first page as text."""
        return format_request(self.path, self.params)


@dataclass(frozen=True, slots=True)
class OffsetListing(Listing):
    """Listing that is paged by offset, the number of preceding records; it ends with an empty page."""

    cursor_parameter: str = "offset"

    def next_cursor(self, page: VenuePage, cursor: str | None) -> str | None:
        """Return the offset after `page`; None for an empty page."""
        count = len(page.items(self.items))
        return str(int(cursor or 0) + count) if count else None


Fetch = Callable[[str, Params, int], Awaitable[VenuePage]]
#: Waits before retry number n of a page.
Pause = Callable[[int], Awaitable[None]]


async def _skip_pause(number: int) -> None:
    """Do not wait."""


async def iterate_pages(
    listing: Listing,
    fetch: Fetch,
    *,
    first: int = 0,
    pause: Pause = _skip_pause,
    holes: bool = False,
    ahead: bool = False,
) -> AsyncGenerator[VenuePage, None]:
    """Yield the pages of `listing`, numbered from `first`. fetch: requests a page. pause: waits before the retry of a page whose cursor
    continues. holes: accept up to `MOST_HOLES` consecutive holes, which the caller has to report. ahead: request the next page before the
    current one is yielded.

    A listing ends with a missing cursor, not with a short page. A page is requested again, up to `PAGE_RETRIES` times, if it is empty, if
    its cursor or its records repeat an earlier page, or if it has no new records in a listing by offset. After that, an empty page without
    a cursor is accepted as the end.

    Raises `PagingError`, before the page is yielded, for a loop, for more than `MOST_PAGES` pages, and for a hole that is not accepted.
    """
    guard = _Guard(listing, MOST_HOLES if holes else 0)

    def request(cursor: str | None, ordinal: int) -> Awaitable[VenuePage]:
        return _request_page(listing, partial(fetch, listing.path, listing.params_at(cursor), ordinal), guard, cursor, pause)

    cursor, ordinal = None, first
    coming = request(cursor, ordinal)
    while True:
        page = await coming
        guard.check(page, cursor)
        cursor, ordinal = listing.next_cursor(page, cursor), ordinal + 1
        if cursor is None:
            yield page
            return
        if not ahead:
            yield page
            coming = request(cursor, ordinal)
            continue
        coming = asyncio.ensure_future(request(cursor, ordinal))
        coming.add_done_callback(_retrieve_exception)
        try:
            await _yield_turns()
            yield page
        except BaseException:
            coming.cancel()
            await asyncio.wait([coming])
            raise


def _retrieve_exception(request: asyncio.Future[VenuePage]) -> None:
    """Retrieve the exception so that asyncio does not warn; a consumer that continues still sees it."""
    if not request.cancelled():
        request.exception()


async def _yield_turns() -> None:
    """Yield to the event loop until a request that was just started has been sent."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def _request_page(
    listing: Listing, fetch: Callable[[], Awaitable[VenuePage]], guard: _Guard, cursor: str | None, pause: Pause
) -> VenuePage:
    """Request a page, and repeat the request while the page is empty or repeats earlier records. After the last retry, prefer a response
    that ends the listing.
    """
    pages: list[VenuePage] = []
    for number in range(1 + PAGE_RETRIES):
        if pages and listing.next_cursor(pages[-1], cursor) is not None:
            await pause(number)
        pages.append(await fetch())
        if not guard.is_doubtful(pages[-1], cursor):
            return pages[-1]
    return next((page for page in pages if not page.items(listing.items) and not listing.is_hole(page, cursor)), pages[-1])


class _Guard:
    """Detector of loops and holes. It remembers the cursors and contents of earlier pages, and counts consecutive holes."""

    def __init__(self, listing: Listing, most_holes: int) -> None:
        self._listing = listing
        self._cursors: set[str | None] = {None}
        self._contents: set[bytes] = set()
        #: Only for listings by offset, which are short; a loop of any other listing repeats a cursor.
        self._listed: set[str] | None = set() if isinstance(listing, OffsetListing) else None
        self._digested: tuple[VenuePage, bytes] | None = None
        self._holes = 0
        self._most_holes = most_holes
        self._pages = 0

    def is_doubtful(self, page: VenuePage, cursor: str | None) -> bool:
        """Return True if the page is empty or repeats earlier records, and should be requested again."""
        items = page.items(self._listing.items)
        if not items or self._loop(page, items, self._listing.next_cursor(page, cursor)) is not None:
            return True
        return self._listed is not None and self._listed.issuperset(self._names(items))

    def check(self, page: VenuePage, cursor: str | None) -> None:
        """Record the page. Raises `PagingError` for a loop, for too many pages and for too many consecutive holes."""
        items = page.items(self._listing.items)
        following = self._listing.next_cursor(page, cursor)
        self._pages += 1
        if self._pages >= MOST_PAGES and following is not None:
            raise self._error(page, f"the listing has no end: {self._pages} pages, and its cursor goes on")
        self._holes = self._holes + 1 if self._listing.is_hole(page, cursor) else 0
        loop = self._loop(page, items, following)
        if loop is not None:
            raise self._error(page, f"the listing loops at page {page.ordinal}: {loop}")
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
        return PagingError(page.request, 1 + PAGE_RETRIES, cause, "Pages before it are stored; run again later", kind="paging")

    def _loop(self, page: VenuePage, items: list[Any], following: str | None) -> str | None:
        """Describe how the page, or the cursor `following` it, repeats an earlier page; None without a repetition."""
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
