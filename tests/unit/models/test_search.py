"""Search services: each is sent the forecast's instant by its own package, and its response is stored as it was received."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.journal.values import CostSource, Outcome
from bellwether.models.keys import Endpoint, endpoint, status
from bellwether.models.model import Model
from bellwether.models.prices import compute_max_cost
from bellwether.models.providers import SEARCH_PACKAGES
from bellwether.models.response import AttemptResult
from bellwether.models.search import build_search
from bellwether.models.transport import LARGEST_BODY, ModelCall, ProviderWire
from tests.unit.models.stub import KEY, Stub, http

for _package in SEARCH_PACKAGES.values():
    pytest.importorskip(_package, reason="the extra `search` is not installed")

NOW = datetime.now(UTC)
AS_OF = (NOW - timedelta(days=20)).replace(hour=12, minute=0, second=0, microsecond=0)
#: The last second before the forecast.
INSTANT = (AS_OF - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
RESPONSE = {
    "id": "1",
    "search_id": "1",
    "session_id": "1",
    "results": [{"id": "1", "url": "https://a.org/ü", "title": "t", "snippet": "s"}],
}


@pytest.fixture(autouse=True)
def platform_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages send the name of the platform, which Python learns from a process."""
    monkeypatch.setattr(platform, "platform", lambda *_: "Linux")


def service(name: str, **changes: Any) -> Model:
    fields = {"name": "arm", "model": "acme/x", "tools": ["search"], "search_service": name, "search_price": Decimal("7")}
    entry = Model.model_validate(fields | changes).searches
    assert entry is not None
    return entry


async def send(name: str, response: bytes, query: str = "rain", as_of: datetime = AS_OF) -> tuple[AttemptResult, Stub]:
    messages, parameters = build_search(name, query, as_of)
    async with Stub(response) as server, ProviderWire() as wire:
        return await wire.send(ModelCall(service(name), Endpoint(server.root, KEY), messages, parameters)), server


@pytest.mark.parametrize(
    ("name", "path", "header", "body"),
    [
        (
            "exa",
            "/search",
            {"x-api-key": KEY},
            {"query": "rain", "numResults": 10, "type": "auto", "contents": {"text": {"maxCharacters": 5000}, "snapshotAsOf": INSTANT}},
        ),
        (
            "perplexity",
            "/search",
            {"authorization": f"Bearer {KEY}"},
            {"query": "rain", "max_results": 10, "max_tokens": 12500, "max_tokens_per_page": 1250, "snapshot_as_of": INSTANT},
        ),
        (
            "parallel",
            "/v1/search",
            {"x-api-key": KEY},
            {
                "search_queries": ["rain"],
                "mode": "basic",
                "advanced_settings": {"max_results": 10, "excerpt_settings": {"max_chars_per_result": 5000}},
                "as_of": INSTANT,
            },
        ),
    ],
)
async def test_each_package_sends_the_instant_before_the_forecast(
    name: str, path: str, header: Mapping[str, str], body: dict[str, Any]
) -> None:
    result, server = await send(name, http(200, RESPONSE))
    (asked,) = server.asked
    assert (asked.line, asked.json) == (f"POST {path} HTTP/1.1", body)
    assert header.items() <= asked.headers.items()
    assert (result.outcome, result.reply.body, result.reply.content) == (Outcome.OK, json.dumps(RESPONSE).encode(), "1 results")
    assert (result.reply.usage.cost, result.reply.usage.cost_source) == (7_000, CostSource.PRICE_LIST)


@pytest.mark.parametrize(
    ("stated", "cost"), [({"total": 0.0051}, 5_100), ({"total": True}, 7_000), ({"total": -1}, 7_000), ("free", 7_000)]
)
async def test_a_stated_cost_replaces_that_of_the_registry(stated: Any, cost: int) -> None:
    result, _ = await send("exa", http(200, RESPONSE | {"costDollars": stated}))
    assert result.reply.usage.cost == cost


@pytest.mark.parametrize("name", SEARCH_PACKAGES)
@pytest.mark.parametrize(
    ("response", "outcome", "cost"),
    [
        (http(401, {"error": {"message": f"Invalid key {KEY}"}}), Outcome.AUTHENTICATION, 0),
        (http(429, {"error": "slow down"}), Outcome.RATE_LIMIT, 0),
        (http(402, {"error": "no credits"}), Outcome.OUT_OF_CREDIT, 0),
        (http(422, {"error": "unknown field as_of"}), Outcome.PROVIDER_ERROR, 0),
        (http(500, {"error": "broken"}), Outcome.PROVIDER_ERROR, None),
        (http(200, b"<html>"), Outcome.MALFORMED, None),
        (http(200, {"results": {}}), Outcome.MALFORMED, None),
        (http(200, b"x" * (LARGEST_BODY + 1)), Outcome.MALFORMED, None),
        (http(200, RESPONSE, length=10_000), Outcome.PROVIDER_ERROR, None),
    ],
)
async def test_a_failed_search_is_a_failed_call_that_is_sent_once(name: str, response: bytes, outcome: Outcome, cost: int | None) -> None:
    result, server = await send(name, response)
    assert (result.outcome, result.reply.usage.cost, len(server.asked)) == (outcome, cost, 1)
    assert KEY not in f"{result.reason}{result.reply.body!r}"


@pytest.mark.parametrize(("name", "days"), [("exa", 150), ("perplexity", 365)])
async def test_nothing_is_sent_for_a_forecast_before_the_oldest_copies(name: str, days: int) -> None:
    result, server = await send(name, http(200, RESPONSE), as_of=NOW - timedelta(days=days, hours=1))
    assert (result.outcome, result.permanent, result.reply.usage.cost, server.asked) == (Outcome.PROVIDER_ERROR, True, 0, [])
    assert f"copies of pages of the last {days} days" in result.reason


async def test_a_long_query_is_cut_at_the_limit_of_the_service() -> None:
    _, server = await send("parallel", http(200, RESPONSE), "x" * 900)
    assert server.asked[0].json["search_queries"] == ["x" * 200]


def test_the_key_comes_from_the_environment_and_a_missing_one_is_named() -> None:
    searches = service("exa")
    assert endpoint(searches, None, environment={"EXA_API_KEY": "abc"}) == Endpoint(None, "abc")
    with pytest.raises(ConfigError, match="EXA_API_KEY is not set"):
        endpoint(searches, None, environment={})
    arm = {"name": "arm", "model": "openai/x", "tools": ["search"], "search_service": "exa", "search_price": 7}
    ready = {"OPENAI_API_KEY": "abc"}
    assert str(status(Model.model_validate(arm), world="live", environment=ready)) == "key missing: EXA_API_KEY"
    assert status(Model.model_validate(arm), world="live", environment=ready | {"EXA_API_KEY": "abc"}).is_ready


def test_a_search_of_a_free_model_reserves_its_price() -> None:
    assert compute_max_cost(service("exa", api_base="http://127.0.0.1:1/v1", search_price=Decimal("7.0001")), []) == 7_001
