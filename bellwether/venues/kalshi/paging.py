"""Walking a listing page by page, with guards against listings that never end."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bellwether.errors import PagingError
from bellwether.venues.kalshi.page import Page, Params, request_text

#: Empty pages in a row, each with a cursor, that are put up with.
MOST_EMPTY_PAGES = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """A call whose answers list records page by page.

    items: the key of the answer that holds the records. identity: the field that tells one record from another.
    """

    path: str
    params: Params
    items: str
    identity: str

    def params_at(self, cursor: str | None) -> Params:
        """The parameters of the page at `cursor`: all the others stay as they are."""
        return (*self.params, ("cursor", cursor)) if cursor else self.params

    @property
    def request(self) -> str:
        """The first call as text."""
        return request_text(self.path, self.params)


Fetch = Callable[[str, Params, int], Awaitable[Page]]


async def walk(listing: Listing, fetch: Fetch, *, cursor: str | None = None, first: int = 0) -> AsyncIterator[Page]:
    """The pages of `listing` from `cursor` on, numbered from `first`; `fetch(path, params, ordinal)` brings each.

    Short pages and empty pages with a cursor are not the end; no cursor is. Raises `PagingError` before a page that would loop is handed
    out: a cursor that came before, a page that lists again what an earlier one listed, or too many empty pages in a row.
    """
    guard = _Guard(listing, cursor)
    ordinal = first
    while True:
        page = await fetch(listing.path, listing.params_at(cursor), ordinal)
        guard.check(page)
        yield page
        cursor, ordinal = page.cursor, ordinal + 1
        if cursor is None:
            return


class _Guard:
    """What a walk has seen so far."""

    def __init__(self, listing: Listing, cursor: str | None) -> None:
        self._listing = listing
        self._cursors = {cursor}
        self._contents: set[bytes] = set()
        self._empty = 0

    def check(self, page: Page) -> None:
        items = page.items(self._listing.items)
        self._empty = 0 if items else self._empty + 1
        if page.cursor is None:
            return
        if page.cursor in self._cursors:
            raise self._loop(page, f"the cursor {page.cursor[:80]!r} came before")
        if items and (content := self._digest(items)) in self._contents:
            raise self._loop(page, f"its {len(items)} {self._listing.items} are those of an earlier page")
        if self._empty > MOST_EMPTY_PAGES:
            raise self._loop(page, f"{self._empty} empty pages in a row, each with a cursor")
        self._cursors.add(page.cursor)
        if items:
            self._contents.add(content)

    def _digest(self, items: list[Any]) -> bytes:
        names = (str(item.get(self._listing.identity)) if isinstance(item, dict) else repr(item) for item in items)
        return hashlib.blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _loop(self, page: Page, found: str) -> PagingError:
        return PagingError(
            page.request, 1, f"the listing loops at page {page.ordinal}: {found}", "Pages before it are stored; run again later"
        )
