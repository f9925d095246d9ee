"""The sandbox's models: their known skill, what they know, and the forms of their answers."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.forecasting.parsing import read
from bellwether.forecasting.prompt import Elicitation, messages
from bellwether.forecasting.prompt import response_format as forecast_format
from bellwether.sandbox import GeneratedWorld, start_clock
from bellwether.sandbox.models import PERSONALITIES, ModelEndpoint, Truth
from bellwether.sandbox.models.beliefs import captured_subject
from bellwether.sandbox.models.replies import ModelReply, ReplyWriter
from bellwether.sandbox.models.request import read_request
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.model import ListedMarket
from bellwether.sandbox.timestamps import DAY, to_datetime, to_instant
from bellwether.sandbox.world.model import Market

LATER = to_instant(datetime(2025, 9, 1, tzinfo=UTC))
AT = to_instant(datetime(2025, 5, 4, tzinfo=UTC))
KNOWN = ("calibrated", "overconfident", "contrarian", "noisy")


@cache
def truth() -> Truth:
    world = GeneratedWorld(11)
    return Truth(world, GeneratedPolymarket(world))


@cache
def settled() -> list[Market]:
    """One market per event, chosen independently of its outcome, so that all are independent. Only those that resolved yes or no, and whose
    rules no other market has.
    """
    days = [truth()._world.day(home) for home in range(250)]
    rules = Counter(market.terms["rules_primary"] for events in days for event in events for market in event.markets)
    events = [event for events in days[60:190] for event in events]
    sample = [event.markets[index % len(event.markets)] for index, event in enumerate(events)]
    sample = [market for market in sample if rules[market.terms["rules_primary"]] == 1]
    return [market for market in sample if market.determination.result in ("yes", "no") and market.life.settled < LATER]


def known_day_before(market: Market) -> float:
    """Return the latent probability a day before the close, or at the opening of a shorter market."""
    at = max(market.life.opens, market.life.closes - DAY)
    return float(market.latent.probabilities_at(np.array([at]))[0])


@cache
def known_and_outcomes() -> tuple[np.ndarray, np.ndarray]:
    """Return the probability a day before the close and the outcome of each settled market."""
    known = [known_day_before(market) for market in settled()]
    return np.array(known), np.array([float(market.determination.result == "yes") for market in settled()])


@pytest.fixture(autouse=True)
def drawn() -> None:
    """Draw the world's markets before the first test."""
    known_and_outcomes()
    open_markets()
    truth().subject("Will it rain?", LATER)


def question(market: Market) -> dict[str, Any]:
    terms = market.terms
    text = f"{terms['title']} — {terms['yes_sub_title']}"
    return {"source": "kalshi", "market_id": market.ticker, "question": text, "description": terms["rules_primary"]}


def reply(model: str, prompt: list[dict[str, Any]], now: int = LATER, sample: int = 0, **more: Any) -> ModelReply:
    request = read_request(json.dumps({"model": model, "messages": prompt, **more}).encode())
    return ReplyWriter(truth(), request, now).reply(sample)


def forecast(model: str, market: Market, elicitation: Elicitation = "tags", sample: int = 0) -> float | None:
    """Return the probability that the benchmark's parser reads in an answer; None if it cannot."""
    as_of = to_datetime(market.life.closes) - timedelta(days=1)
    prompt, form = messages(question(market), as_of, elicitation), forecast_format(elicitation)
    return read(reply(model, prompt, sample=sample, response_format=form).content).p_yes


# --- skill ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elicitation", ["tags", "json"])
def test_what_is_read_is_the_documented_transformation(elicitation: Elicitation) -> None:
    from scipy import special

    for market in settled()[:40]:
        p = known_day_before(market)
        for model in ("calibrated", "overconfident", "contrarian", "slow"):
            assert forecast(model, market, elicitation) == pytest.approx(PERSONALITIES[model].distort(p), abs=1e-9)
    assert PERSONALITIES["overconfident"].distort(0.6) == pytest.approx(special.expit(2.5 * special.logit(0.6)), abs=5e-5)
    assert (PERSONALITIES["contrarian"].distort(0.6), PERSONALITIES["calibrated"].distort(1.0)) == (0.4, 0.9999)


def test_the_excess_in_brier_and_the_ranking_are_the_documented_ones() -> None:
    from scipy import special, stats

    known, outcomes = known_and_outcomes()
    stated = {model: np.array([PERSONALITIES[model].states(p, 11, index, 0) for index, p in enumerate(known.tolist())]) for model in KNOWN}
    z = (outcomes - known) * (1 - 2 * known)
    # Spiegelhalter's z, standard normal for a calibrated forecaster (Statistics in Medicine 5 (1986), 421-433).
    assert abs(z.sum() / math.sqrt(((1 - 2 * known) ** 2 * known * (1 - known)).sum())) < 2.6
    shocks = {model: stats.norm.ppf((np.arange(200) + 0.5) / 200) if PERSONALITIES[model].noise else [0.0] for model in KNOWN}
    documented = {
        model: np.mean([(PERSONALITIES[model].distort(p, z) - p) ** 2 for p in known.tolist() for z in shocks[model]]) for model in KNOWN
    }
    for model in KNOWN[1:]:
        excess = (stated[model] - outcomes) ** 2 - (known - outcomes) ** 2
        assert abs(excess.mean() - documented[model]) < 4 * excess.std(ddof=1) / math.sqrt(len(excess)), model
    by_brier = sorted(KNOWN, key=lambda model: ((stated[model] - outcomes) ** 2).mean())
    assert by_brier == sorted(KNOWN, key=documented.__getitem__)
    assert (by_brier[0], by_brier[-1]) == ("calibrated", "contrarian")
    middle = (known > 0.05) & (known < 0.95)
    noise = (special.logit(stated["noisy"][middle]) - special.logit(known[middle])) / 1.5
    assert stats.kstest(noise, "norm").pvalue > 0.01


def test_noise_differs_between_samples_and_is_repeatable() -> None:
    market = next(market for market in settled() if 0.3 < known_day_before(market) < 0.7)
    samples = [forecast("noisy", market, sample=sample) for sample in range(6)]
    assert len(set(samples)) == 6
    assert samples == [forecast("noisy", market, sample=sample) for sample in range(6)]


# --- knowledge -----------------------------------------------------------------------------------------------------


def test_nothing_is_known_that_comes_later_and_at_most_what_was_known_a_day_before_the_close() -> None:
    for market in settled()[::20]:
        life = market.life
        for now in (life.created, life.opens + 1, (life.opens + life.closes) // 2, life.closes - 1, life.closes, life.settled + 30 * DAY):
            close = life.closes if now >= life.closes else life.scheduled
            known = min(now, max(life.opens, close - DAY))
            found = truth().by_id(market.ticker, now)
            assert found is not None
            assert found.probability == market.latent.probabilities_at(np.array([known]))[0]
        assert truth().by_id(market.ticker, life.created - 1) is None


def test_captured_markets_are_known_halfway_from_price_to_result() -> None:
    assert captured_subject("KXBTC15M-26SEP301500-00", 0.9).probability == 0.45  # type: ignore[union-attr]
    assert captured_subject("KXMLBGAME-26SEP282300NYYBOS-NYY", 0.9).probability == 0.95  # type: ignore[union-attr]
    assert captured_subject("KXOTHER-1", 0.9) is None


# --- failures ------------------------------------------------------------------------------------------------------


def test_a_third_of_the_questions_gets_a_malformed_answer_a_third_a_refusal_and_a_third_the_truth() -> None:
    read_as = [(forecast("failing", market, "tags"), known_day_before(market)) for market in settled()[:150]]
    stated = [(found, round(min(max(p, 0.0001), 0.9999), 4)) for found, p in read_as if found is not None]
    assert all(found == pytest.approx(p, abs=1e-9) for found, p in stated), "an answer that can be read states the truth"
    assert 30 < len(stated) < 75
    prompts = [messages(question(market), datetime(2025, 5, 1, tzinfo=UTC), "json") for market in settled()[:60]]
    answers = [reply("failing", prompt, response_format=forecast_format("json")) for prompt in prompts]
    assert 10 < sum(answer.refusal is not None for answer in answers) < 32
    assert all(answer.content is None for answer in answers if answer.refusal)


# --- the arena -----------------------------------------------------------------------------------------------------


@cache
def open_markets() -> list[ListedMarket]:
    """Polymarket markets open on that Sunday with an uncertain outcome."""
    found = [market for home in range(125, 150) for event in truth()._polymarket.day(home) for market in event.markets]
    return [
        market
        for market in found
        if market.opens < AT < market.closes and (seen := truth().estimate(market.id, AT, AT)) and 0.2 < seen.probability < 0.8
    ]


def test_what_is_known_of_an_arena_market_ends_with_the_date_and_with_its_answer() -> None:
    hour = 3_600_000_000
    for market in open_markets()[:10]:
        midnight, later = market.claim.probabilities_at(np.asarray([AT, AT + 5 * hour]))
        seen = [truth().estimate(market.id, AT, now) for now in (AT, AT + 5 * hour, AT + 24 * hour)]
        assert [one and one.probability for one in seen] == [midnight, later if market.answered > AT + 5 * hour else None, midnight]
    answered = [
        market
        for home in range(60, 120)
        for event in truth()._polymarket.day(home)
        for market in event.markets
        if market.answered <= AT < market.closes
    ]
    assert answered and not any(truth().estimate(market.id, AT, AT) for market in answered)


# --- the endpoint --------------------------------------------------------------------------------------------------


def post(body: Any, key: str = "sandbox-key", waited: list[float] | None = None) -> httpx.Response:
    async def send() -> httpx.Response:
        async def sleep(seconds: float) -> None:
            (waited if waited is not None else []).append(seconds)

        endpoint = ModelEndpoint(truth(), start_clock(to_datetime(LATER)), delay=2.5, sleep=sleep)
        app = Starlette(routes=[Mount("/v1", routes=endpoint.routes())])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
            return await http.post("http://sandbox/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})

    return asyncio.run(send())


def test_a_completion_has_the_shape_that_clients_expect_and_the_same_bytes_again() -> None:
    waited: list[float] = []
    body = {"model": "sandbox/slow", "messages": [{"role": "user", "content": "Rain? <answer>yes</answer> <confidence>0-100</confidence>"}]}
    completion = post(body, waited=waited).json()
    [choice] = completion["choices"]
    message, usage = choice["message"], completion["usage"]
    assert (completion["object"], completion["model"], choice["finish_reason"], waited) == (
        "chat.completion",
        "sandbox/slow",
        "stop",
        [2.5],
    )
    assert message["reasoning_content"] and re.fullmatch(r"<answer>(yes|no)</answer>\n<confidence>[\d.]+</confidence>", message["content"])
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    short = post({**body, "model": "calibrated", "max_tokens": 5}).json()
    assert (short["choices"][0]["finish_reason"], short["usage"]["completion_tokens"]) == ("length", 5)
    noisy = {**body, "model": "noisy", "seed": 1}
    assert post(noisy).content == post(noisy).content != post({**noisy, "seed": 2}).content


@pytest.mark.parametrize(
    ("body", "key", "status", "code"),
    [
        ({"model": "calibrated"}, "sk-other", 401, "invalid_api_key"),
        ({"model": "calibrated"}, "sandbox-expired", 401, "expired_api_key"),
        ({"model": "calibrated"}, "sandbox-broke", 402, "insufficient_credits"),
        ({"model": "gpt-9"}, "sandbox-key", 404, "model_not_found"),
        ({"model": "calibrated", "messages": []}, "sandbox-key", 400, None),
        ({"model": "calibrated", "max_tokens": "many"}, "sandbox-key", 400, None),
        ([], "sandbox-key", 400, None),
    ],
)
def test_a_refused_request_has_the_providers_status_and_code(body: Any, key: str, status: int, code: str | None) -> None:
    complete = {"messages": [{"role": "user", "content": "Rain?"}], **body} if isinstance(body, dict) else body
    response = post(complete, key)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
