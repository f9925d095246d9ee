"""News about the generated markets: a corpus in which the documents that a search must withhold are known.

The last part of a document's id is its kind:

- preview-1, preview-2: published before the close; they state the chance of yes at their time.
- report: states the outcome, published when it is determined.
- undated: the report without a date. edited: dated like the first preview, and replaced by the report later. backdated: the same without the date
  of the change, but the text states the day of the report.
- sibling: the page of a further question, dated before the close, whose title gives the outcome away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import orjson

from bellwether.files import atomic_file
from bellwether.sandbox.timestamps import DAY, HOUR, to_datetime
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.model import Market, WorldEvent
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws

#: Latest time of the second preview before the close, an hour before forecasts of the day before are dated.
_LAST_PREVIEW = 25 * HOUR
#: Share of markets with a document of each kind in addition to previews and report.
_SHARE = 0.25

_OPINIONS = (
    "Observers who follow the matter closely point to recent numbers and to the time that remains.",
    "Few of those involved wanted to be quoted, and most expect a close result.",
    "Much can still change, as earlier cases of this kind have shown.",
)

Row = dict[str, str | datetime | None]


def write_news(path: Path, seed: int, tickers: Iterable[str]) -> None:
    """Write the news about the events of some Kalshi markets of the world of a seed, as JSON lines. The same markets give the same bytes."""
    world = GeneratedWorld(seed)
    events = {event.ticker: event for ticker in tickers if (event := world.event("-".join(ticker.split("-")[:2])))}
    covered = [pair for _, event in sorted(events.items()) for pair in question_texts(event).items()]
    rows = (row for market, question in covered for row in _cover(seed, market, question))
    with atomic_file(path) as draft:
        draft.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))


def question_texts(event: WorldEvent) -> dict[Market, str]:
    """Return the question of each market of an event in the wording of the clean tables: with its label if several have the same title."""
    counts = Counter(market.terms["title"] for market in event.markets)
    return {
        market: f"{market.terms['title']} — {market.terms['yes_sub_title']}" if counts[market.terms["title"]] > 1 else market.terms["title"]
        for market in event.markets
    }


def _cover(seed: int, market: Market, question: str) -> Iterator[Row]:
    """Yield all documents about a market."""
    draw = RandomDraws(seed, Purpose.NEWS, *map(abs, market.key))
    life = market.life
    first = life.opens + (life.closes - life.opens) // 4
    second = max(life.opens, life.closes - _LAST_PREVIEW)
    for kind, at in (("preview-1", min(first, second)), ("preview-2", second)):
        yield _row(f"{market.ticker}-{kind}", (f"Preview: {question}", _preview(market, at, draw)), at)
    result = market.determination.result
    extra = {kind: draw.chance(_SHARE) for kind in ("undated", "edited", "backdated", "sibling")}
    if result not in ("yes", "no"):
        return
    text = f"The matter was decided on {to_datetime(life.determined):%-d %B %Y}. To the question whether this would happen, the answer was {result}. {draw.choose(_OPINIONS)}"
    report = f"Decided: {question}", text
    yield _row(f"{market.ticker}-report", report, life.determined)
    if extra["undated"]:
        yield _row(f"{market.ticker}-undated", report, None)
    if extra["edited"]:
        yield _row(f"{market.ticker}-edited", report, min(first, second), life.determined)
    if extra["backdated"]:
        yield _row(f"{market.ticker}-backdated", report, min(first, second))
    if extra["sibling"]:
        title = f"What follows after the {result} to: {question}"
        yield _row(f"{market.ticker}-sibling", (title, draw.choose(_OPINIONS)), life.closes - 2 * DAY)


def _preview(market: Market, at: int, draw: RandomDraws) -> str:
    chance = 100 * float(market.latent.probabilities_at(np.asarray([at], dtype=np.int64))[0])
    return f"{draw.choose(_OPINIONS)} Analysts put the chance of yes at {chance:.0f} in 100. {market.terms['rules_primary']}"


def _row(name: str, content: tuple[str, str], published: int | None, revised: int | None = None) -> Row:
    """Return a document. content: its title and text."""
    dates = {"published_at": published, "revised_at": revised}
    times = {field: None if at is None else to_datetime(at) for field, at in dates.items()}
    return {"id": name, "url": f"https://news.example/{name}", "title": content[0], "text": content[1], **times}
