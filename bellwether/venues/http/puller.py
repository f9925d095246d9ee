"""The work of one pull: what is stored already is read, the rest is fetched and stored, and nothing is fetched twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from bellwether.venues.http.client import HttpClient
from bellwether.venues.http.page import Call, Page, Params, request_text
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.paging import Listing, walk
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.http.together import together

#: Gets a line of text now and then during a long pull.
Progress = Callable[[str], None]
Ask = Callable[..., Awaitable[Page]]
T = TypeVar("T")

#: Fetched pages between two lines of progress.
_PAGES_PER_LINE = 20


class StaleCursorError(Exception):
    """The venue refuses the cursor at which an interrupted pull was to go on."""


class Puller:
    """One pull under way: `requests` counts the pages fetched from the venue."""

    def __init__(self, client: HttpClient, pull: StoredPull, progress: Progress | None = None) -> None:
        self.client = client
        self.pull = pull
        self.requests = 0
        self._progress = progress
        self._pages: Counter[str] = Counter()

    async def call(self, step: str, call: Call, *, client: HttpClient | None = None) -> Page:
        """The answer of a step that is a single call; of another interface where `client` is given."""
        await self.calls(step, [call], client=client)
        return self.pull.page(step, 0)

    async def calls(
        self, step: str, calls: Sequence[Call], *, accept: frozenset[int] = frozenset(), client: HttpClient | None = None
    ) -> None:
        """Make calls with a single answer each, several at a time, and store the answers under the calls' positions."""
        if self.pull.note is not None:
            return
        client = client or self.client
        ask = partial(client.answer, accept=accept)
        works = (partial(self._answer, ask, step, call, ordinal) for ordinal, call in enumerate(calls))
        await together(works, most=client.limits.connections)
        self._pages[step] = len(calls)

    async def _answer(self, ask: Ask, step: str, call: Call, ordinal: int) -> None:
        stored = self.pull.find(step, ordinal)
        if stored is None or stored.request != call.request:
            # What the page says as JSON takes several times its bytes, and many are stored side by side.
            await _ended(self._write(step, replace(await ask(call, ordinal=ordinal))))

    async def follow(self, step: str, listings: Iterable[Listing], *, client: HttpClient | None = None) -> AsyncGenerator[Page, None]:
        """The pages of one listing after another, numbered through; of a finished pull those that are stored, whatever the listings.

        Each is stored while the next one is asked for. Some holes (`Listing.is_hole`) are among them: whoever reads the pages has to tell of them.
        """
        if self.pull.note is not None:
            for page in self.pull.pages(step):
                yield page
            return
        writing: asyncio.Future[None] | None = None
        try:
            for listing in listings:
                asked = client or self.client
                source = _Source(asked, self.pull, step, listing)
                walked = walk(listing, source.fetch, first=self._pages[step], pause=asked.pause, holes=True, ahead=True)
                async with aclosing(walked) as pages:
                    async for page in pages:
                        if page.ordinal in source.fetched:
                            await _ended(writing)
                            writing = self._write(step, page)
                        self._pages[step] += 1
                        yield page
        finally:
            await _ended(writing)

    def _write(self, step: str, page: Page) -> asyncio.Future[None]:
        """Begin to store a page."""
        self.requests += 1
        if self._progress and self.requests % _PAGES_PER_LINE == 0:
            self._progress(f"{self.pull.folder}: {self.requests} pages so far, now {step} {page.ordinal}")
        return asyncio.ensure_future(asyncio.to_thread(self.pull.write, step, page))

    def finish(self, note: Note) -> None:
        """End the pull, unless it was finished before."""
        if self.pull.note is None:
            self.pull = self.pull.finish(self._pages, note)
            if self._progress:
                self._progress(f"{self.pull.folder}: done, {self.requests} pages fetched, {self._pages.total()} in all")


async def _ended(writing: asyncio.Future[None] | None) -> None:
    """Wait for a write, to its end even where the pull is cancelled meanwhile: nobody writes to a pull that is over."""
    if writing is None:
        return
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise


class _Source:
    """The pages of one listing, from the store where it has them; `fetched` has the ordinals of those that come from the venue."""

    def __init__(self, client: HttpClient, pull: StoredPull, step: str, listing: Listing) -> None:
        self._client = client
        self._pull = pull
        self._step = step
        self._first = listing.params
        self.fetched: set[int] = set()

    async def fetch(self, path: str, params: Params, ordinal: int) -> Page:
        stored = self._pull.find(self._step, ordinal)
        if stored is not None and stored.request == request_text(path, params):
            return stored
        self.fetched.add(ordinal)
        try:
            return await self._client.page(path, params, ordinal=ordinal)
        except RefusedError as refused:
            if ordinal - 1 not in self.fetched and params != self._first:
                raise StaleCursorError(refused.call) from refused
            raise


async def run(
    client: HttpClient, store: PageStore, pull: StoredPull, work: Callable[[Puller], Awaitable[T]], progress: Progress | None
) -> T:
    """Do `work` on `pull`; where the venue refuses the cursor of an interrupted pull, do it on the next one, from the beginning."""
    try:
        return await work(Puller(client, pull, progress))
    except StaleCursorError:
        return await work(Puller(client, store.following(pull), progress))
