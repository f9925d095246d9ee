"""News about the generated markets: what a search must withhold is known, and a model with tools reads only what was published in time."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.corpus import Corpus
from bellwether.forecasting.parsing import read
from bellwether.forecasting.prompt import messages
from bellwether.forecasting.tools import Sources, Tools
from bellwether.models.model import Model
from bellwether.models.response import ToolCall
from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.models import Truth
from bellwether.sandbox.models.replies import ReplyWriter
from bellwether.sandbox.models.request import read_request
from bellwether.sandbox.news import question_texts, write_news
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.timestamps import DAY, HOUR, midnight, to_datetime
from bellwether.sandbox.world.model import FIRST_DAY, Market

SEED = 11
WORLD = GeneratedWorld(SEED)
NOW = midnight(FIRST_DAY) + 30 * DAY
MODEL = Model.model_validate({"name": "a", "model": "sandbox/researcher", "tools": ("search",), "corpus": "news.jsonl"})


@pytest.fixture(scope="module")
def markets() -> list[Market]:
    events = [event for home in range(20, 28) for event in WORLD.day(home)]
    return [market for event in events for market in event.markets if market.determination.result in ("yes", "no")]


@pytest.fixture(scope="module")
def news(markets: list[Market], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("news") / "news.jsonl"
    write_news(path, SEED, [market.ticker for market in markets])
    return path


def test_the_same_markets_give_the_same_bytes_in_any_order(markets: list[Market], news: Path, tmp_path: Path) -> None:
    write_news(tmp_path / "again.jsonl", SEED, [*reversed([market.ticker for market in markets]), "KXNONE-0000-T1"])
    assert (tmp_path / "again.jsonl").read_bytes() == news.read_bytes()


def test_each_kind_has_the_dates_that_its_name_says(markets: list[Market], news: Path, tmp_path: Path) -> None:
    lives = {market.ticker: market.life for market in markets}
    kinds = defaultdict(int)
    with Corpus.open(news, tmp_path) as corpus:
        for document, _ in corpus.documents():
            ticker, _, kind = document.id.replace("-preview-", "-preview").rpartition("-")
            if ticker not in lives:
                continue
            kinds[kind] += 1
            closes, determined = to_datetime(lives[ticker].closes), to_datetime(lives[ticker].determined)
            if kind == "undated":
                assert document.published_at is None
            else:
                assert document.published_at is not None
                assert document.published_at == determined if kind == "report" else document.published_at < closes
                assert document.revised_at == (determined if kind == "edited" else None)
    assert set(kinds) == {"preview1", "preview2", "report", "undated", "edited", "backdated", "sibling"}
    assert kinds["report"] == kinds["preview2"] == len(markets)
    assert 0.1 < kinds["undated"] / len(markets) < 0.4


@pytest.fixture(scope="module")
def truth() -> Truth:
    """The world's truth, whose index of questions is built before the tests."""
    known = Truth(WORLD, GeneratedPolymarket(WORLD))
    known.subject("Will it rain?", NOW)
    return known


def question(market: Market) -> str:
    event = WORLD.event(market.event_ticker)
    assert event is not None
    return next(text for one, text in question_texts(event).items() if one.ticker == market.ticker)


def converse(truth: Truth, prompt: list[dict[str, Any]], tools: Tools) -> list[dict[str, Any]]:
    """Return the messages of a conversation in which the sandbox's model calls the tools, its answer included."""
    while True:
        body = {"model": "researcher", "messages": prompt, "tools": tools.definitions}
        reply = ReplyWriter(truth, read_request(json.dumps(body).encode()), NOW).reply(0)
        calls = [{"id": str(place), "function": {"name": one.name, "arguments": one.arguments}} for place, one in enumerate(reply.calls)]
        prompt = [*prompt, {"role": "assistant", "content": reply.content, "tool_calls": calls}]
        if not calls:
            return prompt
        for one in reply.calls:
            prompt.append({"role": "tool", "tool_call_id": "0", "content": tools.execute(ToolCall("0", one.name, one.arguments))})


def test_the_researcher_states_the_chance_that_was_published_a_day_before_the_close(
    truth: Truth, markets: list[Market], news: Path, tmp_path: Path
) -> None:
    longer = [market for market in markets if market.life.closes - market.life.opens > 2 * DAY][:8]
    with Corpus.open(news, tmp_path) as corpus:
        for market in longer:
            as_of = to_datetime(market.life.closes) - timedelta(days=1)
            row = {"source": "kalshi", "market_id": market.ticker, "question": question(market), "description": ""}
            said = converse(truth, messages(row, as_of), Tools(MODEL, Sources(corpus), as_of))
            known = float(market.latent.probabilities_at(np.array([market.life.closes - 25 * HOUR]))[0])
            assert read(said[-1]["content"]).p_yes == pytest.approx(min(max(round(known, 2), 0.0001), 0.9999))
            assert "The matter was decided" not in json.dumps(said)
