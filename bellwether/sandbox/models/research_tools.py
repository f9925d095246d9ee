"""Research of a model with the tools of a forecaster: it searches for the question, opens the best document, and reads a chance or a price."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bellwether.sandbox.models.exchange_tools import ToolUse

if TYPE_CHECKING:
    from bellwether.sandbox.models.request import ChatRequest

_QUESTION = re.compile(r"^Question: (.+)$", re.MULTILINE)
_MARKET = re.compile(r"^Market: (.+)$", re.MULTILINE)
_CHANCE = re.compile(r"the chance of yes at (\d+) in 100")


def continue_research(request: ChatRequest) -> list[ToolUse]:
    """Return the next calls; none if the research is finished or the tools are not offered."""
    question, market = _QUESTION.search(request.question), _MARKET.search(request.question)
    used, calls = request.used_tools, list[ToolUse]()
    if question is None or market is None:
        return calls
    if "search" in request.tools - used:
        calls.append(ToolUse("search", json.dumps({"query": question[1][:1000]}, ensure_ascii=False)))
    if "prices" in request.tools - used:
        calls.append(ToolUse("prices", json.dumps({"market": market[1]}, ensure_ascii=False)))
    if not calls and "open" in request.tools - used and (document := _choose(request, question[1])):
        calls.append(ToolUse("open", json.dumps({"id": document}, ensure_ascii=False)))
    return calls


def read_research(request: ChatRequest) -> float | None:
    """Return the probability that the results of the tools state: the chance in the opened document, else the latest price; None without either."""
    results = list(_results(request))
    for result in results:
        if found := _CHANCE.search(str(result.get("text", ""))):
            return int(found[1]) / 100
    for result in results:
        for row in reversed(result.get("prices", [])):
            stated = [float(row[name]) for name in (("bid", "ask") if row["bid"] and row["ask"] else ("last",)) if row[name]]
            if stated:
                return sum(stated) / len(stated)
    return None


def _choose(request: ChatRequest, question: str) -> str | None:
    """Return the id of the latest preview of the question that a search found, else of the first document; None without any."""
    documents = [document for result in _results(request) for document in result.get("documents", [])]
    best = [document for document in documents if document["title"] == f"Preview: {question}"]
    best.sort(key=lambda document: document["published_at"], reverse=True)
    return next((document["id"] for document in [*best, *documents]), None)


def _results(request: ChatRequest) -> Iterator[Mapping[str, Any]]:
    """Yield the results of tools that are JSON objects."""
    for text in request.tool_results:
        with suppress(ValueError):
            if isinstance(result := json.loads(text), dict):
                yield result
