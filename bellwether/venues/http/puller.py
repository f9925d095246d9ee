"""Requests of one pull: stored pages are read, and only missing ones are fetched and stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from bellwether.concurrency import together
from bellwether.venues.http.client import HttpClient
from bellwether.venues.http.page import VenueCall, VenuePage
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.http.retry import RefusedError

#: Receives a line of text every few pages.
Progress = Callable[[str], None]
T = TypeVar("T")

#: Fetched pages between two lines of progress.
_PAGES_PER_LINE = 20
#: Status with which venues refuse a cursor that has expired.
_BAD_REQUEST = 400


class Puller:
    """Pull in progress; `requests` is the number of pages fetched from the venue."""

    def __init__(self, client: HttpClient, pull: StoredPull, progress: Progress | None = None) -> None:
        self.client = client
        self.pull = pull
        self.requests = 0
        self._progress = progress
        self._counts: Counter[str] = Counter()

    async def request_all(
        self,
        step: str,
        calls: Sequence[VenueCall],
        *,
        accept: frozenset[int] = frozenset(),
        client: HttpClient | None = None,
    ) -> None:
        """Make the calls of a step concurrently, except those whose response is stored, and store the responses. client: default: that of the
        pull. accept: see `HttpClient.fetch`.
        """
        if self.pull.note is not None:
            return
        client = client or self.client

        async def fetch(ordinal: int, call: VenueCall) -> None:
            stored = self.pull.find(step, ordinal)
            if stored is None or stored.request != call.request:
                self._store(step, await client.fetch(call, ordinal=ordinal, accept=accept))

        await together((partial(fetch, *numbered) for numbered in enumerate(calls)), most=client.limits.connections)
        self._counts[step] = len(calls)

    async def follow(self, step: str, listings: Iterable[Listing]) -> AsyncGenerator[VenuePage, None]:
        """Yield the pages of several listings in order, numbered consecutively; a finished pull yields its stored pages instead. The caller
        has to report holes (`Listing.is_hole`).
        """
        if self.pull.note is not None:
            for page in self.pull.pages(step):
                yield page
            return
        fetched: set[int] = set()

        async def fetch(call: VenueCall, *, ordinal: int) -> VenuePage:
            stored = self.pull.find(step, ordinal)
            if stored is not None and stored.request == call.request:
                return stored
            fetched.add(ordinal)
            return await self.client.fetch(call, ordinal=ordinal)

        for listing in listings:
            async with aclosing(iterate_pages(listing, fetch, first=self._counts[step], pause=self.client.pause, holes=True)) as pages:
                async for page in pages:
                    if page.ordinal in fetched:
                        self._store(step, page)
                    self._counts[step] += 1
                    yield page

    def pages(self, step: str) -> Iterator[VenuePage]:
        """Yield the stored pages of a step. A step that this pull has not begun is read from its base pull."""
        if self.pull.note is not None:
            return self.pull.pages(step)
        if step in self._counts:
            return (self.pull.page(step, ordinal) for ordinal in range(self._counts[step]))
        return self.pull.base.pages(step) if self.pull.base else iter(())

    def _store(self, step: str, page: VenuePage) -> None:
        self.pull.write(step, page)
        self.requests += 1
        if self._progress and self.requests % _PAGES_PER_LINE == 0:
            self._progress(f"{self.pull.folder}: {self.requests} pages so far, now {step} {page.ordinal}")

    def finish(self, note: Note) -> None:
        """Finish the pull, unless it is already finished."""
        if self.pull.note is None:
            self.pull.finish(self._counts, note)
            if self._progress:
                self._progress(f"{self.pull.folder}: done, {self.requests} pages fetched, {self._counts.total()} in all")


async def run_pull(
    client: HttpClient, store: PageStore, pull: StoredPull, work: Callable[[Puller], Awaitable[T]], progress: Progress | None
) -> T:
    """Run `work` on `pull`, and store what was fetched even if it fails. If the venue refuses a request of a pull that was interrupted, whose
    cursors may have expired, start again with a new pull.
    """
    was_interrupted = pull.note is None and bool(pull.steps)
    try:
        return await work(Puller(client, pull, progress))
    except RefusedError as refused:
        if not was_interrupted or refused.status != _BAD_REQUEST:
            raise
        return await run_pull(client, store, store.next_pull(pull), work, progress)
    finally:
        pull.flush()
