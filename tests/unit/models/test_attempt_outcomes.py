"""Errors of providers: their meaning, requested waits, and reported text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from bellwether.journal import CostSource, Outcome
from bellwether.models.attempt_outcomes import AttemptResult, NextStep, RawReply, Stop, classify, decide_next_step, retry_after, tidy_reason
from bellwether.models.model import Model
from bellwether.models.prices import price_map_version
from tests.models.stub import anthropic_error, chat, gemini_error, openai_error

MODEL = Model.model_validate({"name": "one", "model": "openai/gpt-4o"})


def judged(status: int, body: Any, headers: dict[str, str] | None = None, model: str = "openai/gpt-4o") -> AttemptResult:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(MODEL.model_copy(update={"model": model}), RawReply(status, headers or {}, data))


@pytest.mark.parametrize(
    ("status", "body", "outcome", "stop"),
    [
        pytest.param(402, {"error": {"message": "Insufficient Balance"}}, "out_of_credit", "out_of_credit", id="DeepSeek"),
        pytest.param(
            403,
            {"code": "permission denied", "error": "Your newly created team doesn't have any credits yet."},
            "out_of_credit",
            "out_of_credit",
            id="xAI without credit",
        ),
        pytest.param(
            412,
            openai_error("Account x is suspended, possibly due to reaching the monthly spending limit"),
            "out_of_credit",
            "out_of_credit",
            id="Fireworks",
        ),
        *(
            pytest.param(status, body, "out_of_credit", "out_of_credit", id=id)
            for id, status, body in (
                ("Anthropic's limit", 400, anthropic_error("invalid_request_error", "You have reached your specified API usage limits.")),
                ("OpenRouter's key", 403, {"error": {"code": 403, "message": "Key limit exceeded (total limit)"}}),
                ("OpenRouter's key within 200", 200, {"error": {"code": 403, "message": "Key limit exceeded (daily limit)"}}),
                ("New API", 403, openai_error("…", "insufficient_user_quota")),
                ("DashScope", 400, openai_error("Access denied, please make sure your account is in good standing.", "Arrearage")),
                ("Moonshot", 429, openai_error("Your account is suspended, please recharge", kind="exceeded_current_quota_error")),
                ("LiteLLM's proxy", 400, openai_error("Budget has been exceeded! Current cost: 1", kind="budget_exceeded")),
                ("OpenAI", 429, openai_error("You exceeded your current quota, please check your plan", "insufficient_quota")),
            )
        ),
        *(
            pytest.param(status, body, "refusal", None, id=id)
            for id, status, body in (
                (
                    "OpenRouter's moderation",
                    403,
                    {
                        "error": {
                            "code": 403,
                            "message": "openai/x requires moderation. Your input was flagged",
                            "metadata": {"reasons": ["x"]},
                        }
                    },
                ),
                ("OpenAI flags", 400, openai_error("Invalid prompt: your prompt was flagged as potentially harmful")),
                ("OpenAI's safety", 403, openai_error("Your request was rejected as a result of our safety system.")),
                (
                    "xAI",
                    403,
                    {
                        "code": "The caller does not have permission to execute the specified operation",
                        "error": "Content violates usage guidelines. Team: T, API key ID: K, Failed check: SAFETY_CHECK_TYPE_BIO",
                    },
                ),
                ("xAI within 200", 200, {"error": "Content violates usage guidelines."}),
                ("DeepSeek", 400, openai_error("Content Exists Risk", "invalid_request_error")),
                ("DashScope inspects", 400, openai_error("DataInspectionFailed", "data_inspection_failed")),
                (
                    "Moonshot filters",
                    400,
                    openai_error("The request was rejected because it was considered high risk", kind="content_filter"),
                ),
                ("Anthropic filters", 400, anthropic_error("invalid_request_error", "Output blocked by content filtering policy")),
                ("Azure", 400, openai_error("…", "content_filter")),
                ("Azure's completion", 400, {**chat("content_filter", content=""), "usage": {"prompt_tokens": 55, "total_tokens": 55}}),
                ("a refusal as a failure", 422, chat(refusal="No.")),
                ("moderation by a proxy", 422, {"detail": "prompt blocked by moderation"}),
            )
        ),
        *(
            pytest.param(status, body, "authentication", "authentication", id=id)
            for id, status, body in (
                ("Anthropic's permission", 403, anthropic_error("permission_error", "You do not have permission to use the resource.")),
                ("a bare refusal of the key", 403, openai_error("Forbidden")),
                (
                    "OpenAI's country",
                    403,
                    openai_error("Country, region, or territory not supported", "unsupported_country_region_territory"),
                ),
                ("Google's country", 400, gemini_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
                ("a closed account", 401, openai_error("Your account was deactivated for violating our policies", "account_deactivated")),
                ("a suspended organization", 400, openai_error("This organization has been disabled.")),
                ("an expired key", 400, openai_error("API key expired. Please renew the API key.")),
            )
        ),
        *(
            pytest.param(status, body, "rate_limit", None, id=id)
            for id, status, body in (
                ("Groq's capacity", 498, openai_error("capacity", kind="capacity_exceeded")),
                ("Anthropic's capacity", 529, anthropic_error("overloaded_error", "Overloaded")),
                ("Bedrock's limit", 400, {"message": "Too many requests, please wait before trying again."}),
                ("Google's old limit", 403, openai_error("Rate Limit Exceeded", "rateLimitExceeded")),
            )
        ),
        pytest.param(503, openai_error("The moderation service is at capacity"), "provider_error", None, id="a service that is down"),
        pytest.param(403, {}, "provider_error", None, id="403 without a reason"),
        pytest.param(403, b"<html>blocked</html>", "provider_error", None, id="403 of a firewall"),
        pytest.param(
            403, openai_error("Project p has no access", "model_not_found"), "provider_error", "unknown_model", id="no right to a model"
        ),
        pytest.param(413, openai_error("Request too large: tokens per minute", "rate_limit_exceeded"), "provider_error", None, id="413"),
        pytest.param(
            400, openai_error("Model Not Exist", "invalid_request_error"), "provider_error", "unknown_model", id="DeepSeek's model"
        ),
        pytest.param(
            400, {"object": "error", "message": "Invalid model: x", "code": "1500"}, "provider_error", "unknown_model", id="Mistral"
        ),
        pytest.param(404, openai_error("No endpoints found for x."), "provider_error", "unknown_model", id="OpenRouter's model"),
        pytest.param(404, b"<html>nothing here</html>", "provider_error", "unknown_model", id="a wrong address"),
        pytest.param(410, openai_error("gone"), "provider_error", "unknown_model", id="a retired model"),
        pytest.param(422, {"detail": [{"msg": "extra"}]}, "provider_error", None, id="a wrong request"),
        pytest.param(400, openai_error("This model's maximum context length is 10 tokens"), "provider_error", None, id="too long a prompt"),
        pytest.param(
            429, openai_error("You exceeded your current quota", "RESOURCE_EXHAUSTED"), "rate_limit", None, id="Google's quota per minute"
        ),
        pytest.param(302, b"", "provider_error", None, id="a redirect"),
        pytest.param(200, {"error": {"code": 429, "message": "slow"}}, "rate_limit", None, id="429 within 200"),
        pytest.param(200, {"error": {"code": 402, "message": "pay"}}, "out_of_credit", "out_of_credit", id="402 within 200"),
        pytest.param(200, {"error": "rate limit reached"}, "rate_limit", None, id="words within 200"),
        pytest.param(
            200, {"choices": [{"error": {"code": 502, "message": "x"}, "message": {"content": ""}}]}, "provider_error", None, id="a choice"
        ),
        pytest.param(200, chat("error", content="half of it"), "provider_error", None, id="an answer that the provider broke off"),
    ],
)
def test_an_error_means_what_the_provider_means(status: int, body: Any, outcome: str, stop: str | None) -> None:
    result = judged(status, body)
    assert (result.outcome, result.stop) == (Outcome(outcome), Stop(stop) if stop else None), result.reason
    step = NextStep.STOP if stop else {"refusal": NextStep.FINAL, "rate_limit": NextStep.AGAIN}.get(outcome)
    assert step in (None, decide_next_step(result))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["account_a", "violates a ", "insufficient_a_", "rate limit ", "api key ", "model ", "free tier "])
def test_an_error_of_a_megabyte_is_classified_in_linear_time(piece: str) -> None:
    judged(400, {"error": {"message": piece * (1_000_000 // len(piece))}})
    judged(400, {"error": piece * 1000 + "_a" * 500_000})


def test_a_request_that_is_wrong_is_permanent_and_a_server_that_fails_is_not() -> None:
    assert judged(422, {}).permanent
    assert judged(302, b"").permanent
    assert not judged(500, {}).permanent
    assert not judged(429, {}).permanent
    assert not judged(409, {}).permanent


def test_an_answer_beside_an_empty_error_is_an_answer() -> None:
    assert judged(200, {**chat(content="0.4"), "error": None}).outcome is Outcome.OK


NOW = {"date": "Sat, 21 Nov 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT", **NOW}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT", **NOW}, 0.0),
        ({"retry-after-ms": "120", "retry-after": "1"}, 0.12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "50", "x-ratelimit-reset-tokens": "6m"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_what_the_provider_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(429, headers, b"") == seconds


def test_a_reason_is_one_short_line_without_credentials() -> None:
    said = tidy_reason("wrong\n\tkey \x1b[31m my-private-key-value and sk-abcdefgh12345678 " + "x" * 1000, "my-private-key-value")
    assert said.startswith("wrong key [31m *** and *** xxx")
    assert len(said) == 300


def test_a_body_that_repeats_the_key_is_kept_without_it() -> None:
    heard = RawReply(401, {}, b'{"error": {"message": "no such key: my-private-key-value"}}')
    result = classify(MODEL, heard, secret="my-private-key-value")
    assert result.reply.body == b'{"error": {"message": "no such key: ***"}}'


def test_a_key_that_is_a_mere_word_spoils_no_body() -> None:
    heard = RawReply(200, {}, json.dumps(chat(content="EMPTY")).encode())
    assert classify(MODEL, heard, secret="EMPTY").reply.content == "EMPTY"


@pytest.mark.parametrize(
    ("model", "usage", "cost", "source"),
    [
        pytest.param("openrouter/openai/x", {"cost": 0.00123456}, 1235, CostSource.PROVIDER, id="OpenRouter"),
        pytest.param(
            "openrouter/openai/x",
            {"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}},
            21_000,
            CostSource.PROVIDER,
            id="OpenRouter with the user's own key",
        ),
        pytest.param("openrouter/openai/x", {"cost": 0}, 0, CostSource.PROVIDER, id="a free model of OpenRouter's"),
        pytest.param("openrouter/unheard/of", {"cost": "dear"}, None, None, id="no number"),
        pytest.param("xai/grok-4", {"cost_in_usd_ticks": 37_756_000}, 3776, CostSource.PROVIDER, id="xAI"),
        pytest.param("perplexity/x", {"cost": {"total_cost": 0.006}}, 6000, CostSource.PROVIDER, id="Perplexity"),
        pytest.param("openai/gpt-4o", {"cost": 99}, 12_500, CostSource.PRICE_LIST, id="a number that means nothing"),
        pytest.param("openai/unheard-of", {}, None, None, id="no price: unknown, not 0"),
    ],
)
def test_a_cost_is_the_providers_own_report_where_there_is_one(model: str, usage: dict[str, Any], cost: int | None, source: Any) -> None:
    counted = {"prompt_tokens": 1000, "completion_tokens": 1000, **usage}
    found = judged(200, chat(content="0.4", usage=counted), model=model).reply.usage
    assert (found.cost, found.cost_source) == (cost, source)
    assert found.price_list == (price_map_version() if source is CostSource.PRICE_LIST else None)


def test_a_cost_by_the_prices_of_the_registry_names_them() -> None:
    model = MODEL.model_copy(update={"input_price": Decimal("2.5"), "output_price": Decimal(10)})
    usage = classify(model, RawReply(200, {}, json.dumps(chat(content="0.4")).encode())).reply.usage
    assert (usage.cost, usage.price_list) == (22_500, "registry: 2.5 in, 10 out")


@pytest.mark.parametrize("model", ["openai/gpt-4o", "xai/grok-4"])
@pytest.mark.parametrize(
    "usage", [{"completion_tokens": 2**61}, {"total_tokens": 2**62 - 1}, {"cost_in_usd_ticks": 10**40, "total_tokens": 2**62 - 1}]
)
def test_a_usage_beyond_belief_has_an_unknown_cost_and_loses_no_answer(model: str, usage: dict[str, Any]) -> None:
    found = judged(200, chat(content="0.4", usage={"prompt_tokens": 1000, "completion_tokens": 1000, **usage}), model=model)
    assert (found.outcome, found.reply.content) == (Outcome.OK, "0.4")
    assert (found.reply.usage.cost, found.reply.usage.cost_source) == (None, None)


@pytest.mark.parametrize("status", [301, 307, 308])
@pytest.mark.parametrize("setting", ["api_base in models.toml", "OPENAI_API_BASE or OPENAI_BASE_URL"])
def test_a_redirect_names_its_address_and_the_setting_to_correct(status: int, setting: str) -> None:
    own = MODEL.model_copy(update={"model": "openai/gpt-4o", "api_base": "http://a.example/v1" if "toml" in setting else None})
    found = classify(own, RawReply(status, {"location": "https://user:hidden@b.example/v1/chat?token=hidden#x"}))
    assert (found.outcome, found.permanent, found.reply.usage.cost) == (Outcome.PROVIDER_ERROR, True, 0)
    assert found.reason == (
        f"HTTP {status}: a redirect, which is not followed; correct the base address ({setting}). It names https://b.example/v1/chat"
    )


@pytest.mark.parametrize("target", ["//[b", "/v1\x1b[2J\n" + "x" * 9999, "?token=hidden", "//user:hidden@b.example/v1"])
def test_a_strange_redirect_is_one_short_line_without_credentials(target: str) -> None:
    reason = classify(MODEL, RawReply(307, {"location": target})).reason
    assert reason.startswith("HTTP 307: a redirect, which is not followed; correct the base address (")
    assert reason.isprintable()
    assert len(reason) <= 300
    assert "hidden" not in reason
