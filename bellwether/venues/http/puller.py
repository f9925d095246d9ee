"""Requests of one pull: stored pages are read, and only missing ones are fetched and stored.

A step is a named group of a pull's requests. A pull may extend a finished one, its base.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from bellwether.concurrency import together
from bellwether.errors import BellwetherError
from bellwether.venues.http.client import HttpClient
from bellwether.venues.http.page import Params, VenueCall, VenuePage, format_request
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.wire.json_decoding import MalformedBody

#: Receives a line of text every few pages.
Progress = Callable[[str], None]
#: Processes a page; returns False if it cannot, unless `last` is True.
PageHandler = Callable[..., bool]
#: Raises an exception for a page of an unexpected shape.
PageCheck = Callable[[VenuePage], object]
T = TypeVar("T")

#: Fetched pages between two lines of progress.
_PAGES_PER_LINE = 20


def _accept_any(page: VenuePage) -> None:
    """Accept every page."""


def _passes(fits: PageCheck, page: VenuePage) -> bool:
    """Return True if the check `fits` raises nothing for the page."""
    try:
        fits(page)
    except (BellwetherError, MalformedBody):
        return False
    return True


class StaleCursorError(Exception):
    """The venue no longer accepts the cursor of an interrupted pull."""


class Puller:
    """Pull in progress; `requests` is the number of pages fetched from the venue."""

    def __init__(self, client: HttpClient, pull: StoredPull, progress: Progress | None = None) -> None:
        self.client = client
        self.pull = pull
        self.requests = 0
        self._progress = progress
        self._pages: Counter[str] = Counter()
        self._writing: asyncio.Future[None] | None = None

    async def request(self, step: str, call: VenueCall, *, fits: PageCheck) -> VenuePage:
        """Make the only call of a step, unless its response is stored, and return the response. fits: check of the response; see
        `request_all`.
        """
        await self.request_all(step, [call], fits=fits)
        return self.pull.page(step, 0)

    async def request_all(
        self,
        step: str,
        calls: Sequence[VenueCall],
        *,
        accept: frozenset[int] = frozenset(),
        client: HttpClient | None = None,
        fits: PageCheck = _accept_any,
    ) -> None:
        """Make the calls of a step concurrently, except those whose response is stored, and store the responses. fits: raises for a page of
        an unexpected shape, which is then requested once more. client: default: that of the pull. accept: see `HttpClient.fetch`.
        """
        if self.pull.note is not None:
            return
        client = client or self.client
        fetch = partial(client.fetch, accept=accept)
        works = (partial(self._fetch_missing, fetch, step, call, ordinal, fits) for ordinal, call in enumerate(calls))
        await together(works, most=client.limits.connections)
        self._pages[step] = len(calls)

    async def _fetch_missing(
        self, fetch: Callable[..., Awaitable[VenuePage]], step: str, call: VenueCall, ordinal: int, fits: PageCheck
    ) -> None:
        stored = self.pull.find(step, ordinal)
        if stored is None or stored.request != call.request or not _passes(fits, stored):
            page = await fetch(call, ordinal=ordinal)
            if not _passes(fits, page):
                page = await fetch(call, ordinal=ordinal)
            # The page's JSON takes several times its bytes, and many pages are stored concurrently.
            await _finish_write(self._write(step, replace(page)))

    async def process(self, step: str, page: VenuePage, take: PageHandler) -> None:
        """Pass a page to `take`. If `take` returns False, request and store the page again, and call `take` with `last=True`, which must
        accept any page.
        """
        if take(page):
            return
        if self.pull.note is None:
            await _finish_write(self._writing)
            page = await self.client.fetch(VenueCall(page.request.removeprefix("GET ")), ordinal=page.ordinal)
            await _finish_write(self._write(step, page))
        take(page, last=True)

    def pages(self, step: str) -> Iterator[VenuePage]:
        """Yield the stored pages of a step. A step that this pull has not begun is read from its base pull."""
        if self.pull.note is not None:
            return self.pull.pages(step)
        if step in self._pages:
            return (self.pull.page(step, ordinal) for ordinal in range(self._pages[step]))
        return self.pull.base.pages(step) if self.pull.base else iter(())

    async def follow(self, step: str, listings: Iterable[Listing]) -> AsyncGenerator[VenuePage, None]:
        """Yield the pages of several listings in order, numbered consecutively; a finished pull yields its stored pages instead.

        Each page is stored while the next one is requested. The caller has to report holes (`Listing.is_hole`).
        """
        if self.pull.note is not None:
            for page in self.pull.pages(step):
                yield page
            return
        try:
            for described in listings:
                listing = await self.client.adapt_listing(described)
                source = _Source(self.client, self.pull, step, listing)
                iteration = iterate_pages(listing, source.fetch, first=self._pages[step], pause=self.client.pause, holes=True, ahead=True)
                async with aclosing(iteration) as pages:
                    async for page in pages:
                        if page.ordinal in source.fetched:
                            await _finish_write(self._writing)
                            self._writing = self._write(step, page)
                        self._pages[step] += 1
                        yield page
        finally:
            await _finish_write(self._writing)

    def _write(self, step: str, page: VenuePage) -> asyncio.Future[None]:
        """Start storing a page."""
        self.requests += 1
        if self._progress and self.requests % _PAGES_PER_LINE == 0:
            self._progress(f"{self.pull.folder}: {self.requests} pages so far, now {step} {page.ordinal}")
        return asyncio.ensure_future(asyncio.to_thread(self.pull.write, step, page))

    def finish(self, note: Note) -> None:
        """Finish the pull, unless it is already finished."""
        if self.pull.note is None:
            self.pull = self.pull.finish(self._pages, note)
            if self._progress:
                self._progress(f"{self.pull.folder}: done, {self.requests} pages fetched, {self._pages.total()} in all")


async def _finish_write(writing: asyncio.Future[None] | None) -> None:
    """Wait until a write is complete, even if the pull is cancelled meanwhile, so that no write follows the end of the pull."""
    if writing is None:
        return
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise


class _Source:
    """Pages of one listing, read from the store or fetched from the venue. `fetched` has the ordinals of fetched pages."""

    def __init__(self, client: HttpClient, pull: StoredPull, step: str, listing: Listing) -> None:
        self._client = client
        self._pull = pull
        self._step = step
        self._first = listing.params
        self.fetched: set[int] = set()

    async def fetch(self, path: str, params: Params, ordinal: int) -> VenuePage:
        stored = self._pull.find(self._step, ordinal)
        if stored is not None and stored.request == format_request(path, params):
            return stored
        self.fetched.add(ordinal)
        try:
            return await self._client.get(path, params, ordinal=ordinal)
        except RefusedError as refused:
            if ordinal - 1 not in self.fetched and params != self._first:
                raise StaleCursorError(refused.call) from refused
            raise


async def run_pull(
    client: HttpClient, store: PageStore, pull: StoredPull, work: Callable[[Puller], Awaitable[T]], progress: Progress | None
) -> T:
    """Run `work` on `pull`; if the venue refuses the cursor of an interrupted pull, start again with a new pull."""
    try:
        return await work(Puller(client, pull, progress))
    except StaleCursorError:
        return await work(Puller(client, store.next_pull(pull), progress))
