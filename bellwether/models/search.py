"""Search services of the web that show pages as of a past instant, through their own Python packages (extra `search`).

A search is a call of the model client, with its journal, budgets and retries: the message is the query, and the body of the answer the response.
Each service takes an instant and returns the copies of pages that it had stored by then; `bellwether.corpus.search_results` reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import httpx

from bellwether.journal.values import CostSource, Outcome, Reply, Usage
from bellwether.models.prices import compute_max_cost
from bellwether.models.response import AttemptResult, RawReply, decode_body, describe_flaw

if TYPE_CHECKING:
    from bellwether.models.keys import Endpoint
    from bellwether.models.model import Model

#: Version of the requests: raise it with every change.
VERSION = "1"
#: Results of a search, and characters of the text of each.
MOST_RESULTS, LONGEST_RESULT = 10, 5_000


class SearchService(ABC):
    """Search service of the web.

    Attributes:
        longest_query: characters of a query that are sent.
        days: age of the oldest stored copies of pages; None if the service states none.
    """

    longest_query: ClassVar[int] = 1_000
    days: ClassVar[int | None] = None

    @abstractmethod
    def build_arguments(self, instant: str) -> dict[str, Any]:
        """Return the arguments of the package's function besides the query. instant: time of the copies, in RFC 3339."""

    @abstractmethod
    async def send(self, query: str, arguments: Mapping[str, Any], endpoint: Endpoint, http: httpx.AsyncClient) -> None:
        """Send a search with the service's package over `http`, which records the response."""

    def read_cost(self, response: Mapping[str, Any]) -> Decimal | None:
        """Return the dollars that a response states as its cost; None if it states none."""
        return None


class Exa(SearchService):
    """Exa (docs: search/snapshot)."""

    days = 150

    def build_arguments(self, instant: str) -> dict[str, Any]:
        """See `SearchService.build_arguments`."""
        contents = {"text": {"max_characters": LONGEST_RESULT}, "snapshot_as_of": instant}
        return {"num_results": MOST_RESULTS, "type": "auto", "contents": contents}

    async def send(self, query: str, arguments: Mapping[str, Any], endpoint: Endpoint, http: httpx.AsyncClient) -> None:
        """See `SearchService.send`."""
        from exa_py import AsyncExa

        class RecordedExa(AsyncExa):
            @property
            def client(self) -> httpx.AsyncClient:
                return http

        client = RecordedExa(endpoint.api_key) if endpoint.api_base is None else RecordedExa(endpoint.api_key, endpoint.api_base)
        await client.search(query, **arguments)

    def read_cost(self, response: Mapping[str, Any]) -> Decimal | None:
        """See `SearchService.read_cost`."""
        cost = response.get("costDollars")
        total = cost.get("total") if isinstance(cost, Mapping) else None
        is_amount = isinstance(total, int | float) and not isinstance(total, bool) and 0 <= total < 1_000
        return Decimal(str(total)) if is_amount else None


class Perplexity(SearchService):
    """Search API of Perplexity (docs: search/time-machine)."""

    days = 365

    def build_arguments(self, instant: str) -> dict[str, Any]:
        """See `SearchService.build_arguments`."""
        tokens = LONGEST_RESULT // 4
        return {
            "max_results": MOST_RESULTS,
            "max_tokens": MOST_RESULTS * tokens,
            "max_tokens_per_page": tokens,
            "extra_body": {"snapshot_as_of": instant},
        }

    async def send(self, query: str, arguments: Mapping[str, Any], endpoint: Endpoint, http: httpx.AsyncClient) -> None:
        """See `SearchService.send`."""
        from perplexity import AsyncPerplexity

        client = AsyncPerplexity(api_key=endpoint.api_key, base_url=endpoint.api_base, http_client=http, max_retries=0)
        await client.search.create(query=query, **arguments)


class Parallel(SearchService):
    """Search API of Parallel (docs: search/snapshot)."""

    longest_query = 200

    def build_arguments(self, instant: str) -> dict[str, Any]:
        """See `SearchService.build_arguments`."""
        settings = {"max_results": MOST_RESULTS, "excerpt_settings": {"max_chars_per_result": LONGEST_RESULT}}
        return {"mode": "basic", "advanced_settings": settings, "extra_body": {"as_of": instant}}

    async def send(self, query: str, arguments: Mapping[str, Any], endpoint: Endpoint, http: httpx.AsyncClient) -> None:
        """See `SearchService.send`."""
        from parallel import AsyncParallel

        client = AsyncParallel(api_key=endpoint.api_key, base_url=endpoint.api_base, http_client=http, max_retries=0)
        await client.search(search_queries=[query], **arguments)


#: Services by their name in the registry.
SERVICES: Mapping[str, SearchService] = {"exa": Exa(), "perplexity": Perplexity(), "parallel": Parallel()}


# --- requests ----------------------------------------------------------------------------------------------------------


def build_search(name: str, query: str, as_of: datetime) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Return messages and parameters of a search with the service `name`, for copies of pages that were stored before `as_of`."""
    service = SERVICES[name]
    last_second = (as_of.astimezone(UTC) - timedelta(microseconds=1)).replace(microsecond=0)
    instant = last_second.isoformat().replace("+00:00", "Z")
    messages = [{"role": "user", "content": query[: service.longest_query]}]
    return messages, {"as_of": instant, "arguments": service.build_arguments(instant)}


def find_obstacle(model: Model, parameters: Mapping[str, Any], now: datetime) -> str | None:
    """Return the reason why a service cannot show pages as of the instant of a search; None if it can. now: current time."""
    days = SERVICES[model.id].days
    if days is None or datetime.fromisoformat(parameters["as_of"]) >= now - timedelta(days=days):
        return None
    return f"the service has copies of pages of the last {days} days, and the forecast is as of {parameters['as_of']}"


async def send_search(
    model: Model, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], endpoint: Endpoint, http: httpx.AsyncClient
) -> None:
    """Send a search over `http`, which records the response. Raises the exceptions of the service's package."""
    await SERVICES[model.id].send(str(messages[-1]["content"]), parameters["arguments"], endpoint, http)


def build_search_result(model: Model, raw: RawReply) -> AttemptResult:
    """Build the result of a search from a complete response with status 200. The content of the answer is the number of results; the body has them."""
    reply = Reply(raw.body, http_status=raw.status, latency_ms=raw.latency_ms)
    response = decode_body(raw.body)
    if not isinstance(response, Mapping):
        return AttemptResult(Outcome.MALFORMED, reply, f"HTTP 200 with {describe_flaw(raw.body)}")
    if not isinstance(response.get("results"), list):
        return AttemptResult(Outcome.MALFORMED, reply, "HTTP 200 without a list of results")
    usage = _build_usage(model, SERVICES[model.id].read_cost(response))
    return AttemptResult(Outcome.OK, replace(reply, content=f"{len(response['results'])} results", usage=usage))


def _build_usage(model: Model, dollars: Decimal | None) -> Usage:
    """Return the cost of a search: the stated one, or that of the registry."""
    if dollars is None:
        return Usage(
            cost=compute_max_cost(model, []),
            cost_source=CostSource.PRICE_LIST,
            price_list=f"registry: {model.search_price} per thousand searches",
        )
    micro = int((dollars * 1_000_000).to_integral_value(ROUND_CEILING))
    return Usage(cost=micro, cost_source=CostSource.PROVIDER)
