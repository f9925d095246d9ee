"""Iteration over the pages of a listing, which detects endless listings and invalid pages.

A hole is an empty page whose cursor continues. A loop is a cursor that an earlier page had, or the records of an earlier page.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from bellwether.errors import VenueError
from bellwether.venues.http.page import Params, VenueCall, VenuePage

#: Maximum number of consecutive holes (empty pages whose cursor continues), if the caller accepts holes.
MOST_HOLES = 5
#: Retries of a doubtful page, before it is accepted (if empty) or an error (if repeated).
PAGE_RETRIES = 2
#: Maximum number of pages of a listing, several times the number of the venues' largest.
MOST_PAGES = 10_000


@dataclass(frozen=True, slots=True)
class Listing:
    """Route that returns records page by page.

    items: key of the records in a response. identity: field that identifies a record. cursor_parameter, cursor_field: names of the cursor
    in the request and in the response.
    """

    path: str
    params: Params
    items: str
    identity: str
    cursor_parameter: str = "cursor"
    cursor_field: str = "cursor"

    def call_at(self, cursor: str | None) -> VenueCall:
        """Return the call that requests the page at `cursor`."""
        return VenueCall(self.path, (*self.params, (self.cursor_parameter, cursor)) if cursor else self.params, required=self.items)

    def next_cursor(self, page: VenuePage) -> str | None:
        """Return the cursor of the page after `page`; None after the last page."""
        following = page.answer.get(self.cursor_field)
        return None if following in (None, "") else str(following)

    def is_hole(self, page: VenuePage) -> bool:
        """Return True for a hole: `page` is empty although its cursor continues, so that records may be missing."""
        return not page.items(self.items) and self.next_cursor(page) is not None

    def digest(self, page: VenuePage) -> bytes | None:
        """Return a digest of the ids of the page's records; None for an empty page."""
        items = page.items(self.items)
        names = [str(item.get(self.identity)) if isinstance(item, dict) else repr(item) for item in items]
        return hashlib.blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=16).digest() if items else None


#: Sends a call, and returns the response. Keyword `ordinal`: number that the page gets.
Fetch = Callable[..., Awaitable[VenuePage]]
#: Waits before retry number n of a page.
Pause = Callable[[int], Awaitable[None]]


async def iterate_pages(
    listing: Listing, fetch: Fetch, *, first: int = 0, pause: Pause, holes: bool = False
) -> AsyncGenerator[VenuePage, None]:
    """Yield the pages of `listing`, numbered from `first`. fetch: requests a page. pause: waits before the retry of a page whose cursor
    continues. holes: accept up to `MOST_HOLES` consecutive holes, which the caller has to report.

    A listing ends with a missing cursor, not with a short page. A page that is empty, or whose cursor or records repeat an earlier page, is
    requested again, up to `PAGE_RETRIES` times. After that, an empty page without a cursor is accepted as the end.

    Raises `VenueError`, before the page is yielded, for a loop, for more than `MOST_PAGES` pages, and for a hole that is not accepted.
    """
    cursors: set[str | None] = {None}
    contents: set[bytes | None] = set()
    cursor, empty = None, 0
    for number in range(MOST_PAGES):
        for retry in range(1 + PAGE_RETRIES):
            page = await fetch(listing.call_at(cursor), ordinal=first + number)
            following, loop = listing.next_cursor(page), _describe_loop(listing, page, cursors, contents)
            if page.items(listing.items) and loop is None:
                break
            if following is not None and retry < PAGE_RETRIES:
                await pause(1 + retry)
        cursor = following
        empty = empty + 1 if listing.is_hole(page) else 0
        if loop is not None:
            raise _error(page, f"the listing loops at page {page.ordinal}: {loop}")
        if empty > (MOST_HOLES if holes else 0):
            raise _error(page, f"the listing has a hole at page {page.ordinal}: empty pages in a row whose cursors go on: {empty}")
        if number + 1 == MOST_PAGES and cursor is not None:
            raise _error(page, f"the listing has no end: {MOST_PAGES} pages, and its cursor goes on")
        cursors.add(cursor)
        contents.add(listing.digest(page))
        yield page
        if cursor is None:
            return


def _describe_loop(listing: Listing, page: VenuePage, cursors: set[str | None], contents: set[bytes | None]) -> str | None:
    """Describe how the page, or its cursor, repeats an earlier page; None without a repetition. The last page may repeat records."""
    following, digest = listing.next_cursor(page), listing.digest(page)
    if following is None:
        return None
    if following in cursors:
        return f"the cursor {following[:80]!r} came before"
    if digest is not None and digest in contents:
        return f"its {len(page.items(listing.items))} {listing.items} are those of an earlier page"
    return None


def _error(page: VenuePage, cause: str) -> VenueError:
    return VenueError(page.request, 1 + PAGE_RETRIES, cause, "Pages before it are stored; run again later", kind="paging")
