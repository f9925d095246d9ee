"""The sandbox's models: their known skill, what they know, and the forms of their answers."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.arena.decision import Action, response_format
from bellwether.arena.market import Market as ArenaMarket
from bellwether.arena.market import MarketStatus
from bellwether.arena.methodology import load_methodology
from bellwether.arena.parsing import Limits, parse_decision
from bellwether.arena.prompt import Holding, Portfolio, build_messages
from bellwether.arena.units import MICROS
from bellwether.forecasting.elicitation import Elicitation
from bellwether.forecasting.parsing import read
from bellwether.forecasting.prompt import messages
from bellwether.forecasting.prompt import response_format as forecast_format
from bellwether.sandbox import Clock, GeneratedWorld
from bellwether.sandbox.models import PERSONALITIES, ModelEndpoint, Truth, skill
from bellwether.sandbox.models.beliefs import captured_subject
from bellwether.sandbox.models.replies import ModelReply, ReplyWriter
from bellwether.sandbox.models.request import read_request
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.model import ListedMarket
from bellwether.sandbox.timestamps import DAY, to_datetime, to_instant
from bellwether.sandbox.world.model import Market

LATER = to_instant(datetime(2025, 9, 1, tzinfo=UTC))
SUNDAY = date(2025, 5, 4)
AT = to_instant(datetime(2025, 5, 4, tzinfo=UTC))
KNOWN = ("calibrated", "overconfident", "contrarian", "noisy")
V1 = load_methodology("v1")


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
            assert forecast(model, market, elicitation) == pytest.approx(skill(model).states(p), abs=1e-9)
    assert skill("overconfident").states(0.6) == pytest.approx(special.expit(2.5 * special.logit(0.6)), abs=5e-5)
    assert (skill("contrarian").states(0.6), skill("calibrated").states(1.0)) == (0.4, 0.9999)


def test_the_excess_in_brier_and_the_ranking_are_the_documented_ones() -> None:
    from scipy import special, stats

    known, outcomes = known_and_outcomes()
    stated = {model: np.array([PERSONALITIES[model].states(p, 11, index, 0) for index, p in enumerate(known.tolist())]) for model in KNOWN}
    z = (outcomes - known) * (1 - 2 * known)
    # Spiegelhalter's z, standard normal for a calibrated forecaster (Statistics in Medicine 5 (1986), 421-433).
    assert abs(z.sum() / math.sqrt(((1 - 2 * known) ** 2 * known * (1 - known)).sum())) < 2.6
    documented = {model: skill(model).excess_brier(known.tolist()) for model in KNOWN}
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


def test_equal_questions_are_told_apart_by_their_close_and_otherwise_averaged() -> None:
    first: dict[tuple[str, str], Market] = {}
    events = (event for home in range(60, 240) for event in truth()._world.day(home))
    for market in (market for event in events for market in event.markets):
        title, rules = asked = market.terms["title"], market.terms["rules_primary"]
        other = first.setdefault(asked, market)
        if other.event_ticker != market.event_ticker:
            break
    known = [truth().by_id(one.ticker, LATER).probability for one in (other, market)]  # type: ignore[union-attr]
    for one, p in zip((other, market), known, strict=True):
        assert truth().subject(f"{title}\n{rules}\n{to_datetime(one.life.closes).date()}", LATER).probability == p
    assert truth().subject(f"{title}\n{rules}", LATER).probability == pytest.approx(sum(known) / 2)
    unknown = [truth().subject(f"Will number {number} come up?", LATER).probability for number in range(50)]
    assert len(set(unknown)) == 50 and all(0.05 <= p < 0.95 for p in unknown)


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


def believed(market: ListedMarket) -> float:
    return truth().estimate(market.id, AT, AT).probability  # type: ignore[union-attr]


def offer(market: ListedMarket, yes: float) -> ArenaMarket:
    """Return the market at this price of the outcome that its claim pays."""
    first = round(MICROS * yes)
    prices = (first, MICROS - first) if market.yes == 0 else (MICROS - first, first)
    return ArenaMarket(market.id, market.question, market.outcomes, prices, market.tokens, status=MarketStatus.ACTIVE)


def decide(model: str, offers: list[ArenaMarket], rules: Any = V1, held: tuple[Holding, ...] = (), **more: Any) -> Any:
    prompt = build_messages(rules, Portfolio(rules.cash, held), offers, today=SUNDAY, week=1)
    return parse_decision(reply(model, prompt, now=AT, **more).content or "", Limits.of(rules, rules.cash))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_it_bets_on_the_widest_edges_in_proportion_to_its_belief_and_within_the_bounds(version: str) -> None:
    rules, chosen = load_methodology(version), open_markets()[:5]
    shifts = dict(zip([market.id for market in chosen], (-0.15, 0.12, 0.02, -0.18, 0.1), strict=True))
    decision = decide("calibrated", [offer(market, believed(market) + shifts[market.id]) for market in chosen], rules)
    assert [bet.market_id for bet in decision.bets] == sorted(shifts, key=lambda name: -abs(shifts[name]))[:3]
    share = 3 if version == "v2" else 1
    for bet in decision.bets:
        market = next(one for one in chosen if one.id == bet.market_id)
        p = believed(market) if shifts[market.id] < 0 else 1 - believed(market)
        assert bet.probability == pytest.approx(p, abs=1e-4)
        assert bet.amount == pytest.approx(rules.largest_bet(rules.cash) / share * bet.probability, abs=10_200)
        assert bet.amount <= rules.largest_bet(rules.cash) / share
        assert (bet.side.casefold() == market.outcomes[market.yes].casefold()) == (shifts[market.id] < 0)


def test_it_sells_what_is_too_dear_and_holds_where_prices_are_right() -> None:
    market = open_markets()[0]
    price, side = round(MICROS * (believed(market) + 0.15)), market.outcomes[market.yes].upper()
    held = (
        Holding("c/f/2025-04-27/1", market.question, side, MICROS, MICROS // 2, price, price, True),
        Holding("c/f/2025-04-27/2", market.question, side, MICROS, MICROS // 2, price, price, False),
    )
    sold = decide("calibrated", [offer(market, believed(market))], held=held)
    assert (sold.action, [sell.position_id for sell in sold.sells]) == (Action.SELL, ["c/f/2025-04-27/1"])
    assert decide("calibrated", [offer(market, believed(market) + 0.01)]).action is Action.HOLD
    assert decide("calibrated", []).action is Action.HOLD
    strict = decide("calibrated", [offer(market, 0.5)], response_format=response_format())
    assert strict.action is not Action.INVALID
    failed = [decide("failing", [offer(one, 0.5) for one in open_markets()[start : start + 5]]) for start in range(20)]
    assert 5 < sum(decision.action is Action.INVALID for decision in failed) < 20


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


# --- the tools of an exchange --------------------------------------------------------------------------------------

TOOLS = ("get_markets", "get_positions", "get_resting_orders", "place_order", "cancel_order", "done")


def step(model: str, at: datetime, results: dict[str, Any]) -> list[list[tuple[str, Any]]]:
    """Run one step with the tools' results. Returns the calls of each round, as name and arguments."""
    prompt: list[dict[str, Any]] = [{"role": "user", "content": f"Time: {at.isoformat()}"}]
    tools = [{"type": "function", "function": {"name": name}} for name in TOOLS]
    rounds: list[list[tuple[str, Any]]] = []
    for _ in range(3):
        calls = reply(model, prompt, tools=tools).calls
        rounds.append([(call.name, json.loads(call.arguments)) for call in calls])
        made = [{"id": call.name, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls]
        prompt += [{"role": "assistant", "content": None, "tool_calls": made}]
        prompt += [{"role": "tool", "tool_call_id": call.name, "content": json.dumps(results.get(call.name, {}))} for call in calls]
        if not calls or calls[0].name == "done":
            break
    return rounds


def test_a_step_queries_trades_on_the_belief_of_its_time_and_ends() -> None:
    market = next(one for one in settled() if 0.6 < known_at(one) < 0.8)
    p, at = known_at(market), to_datetime(market.life.closes) - timedelta(days=2)
    ask = round(100 * p) - 20
    quote = {"ticker": market.ticker, "status": "open", "yes_bid_cents": ask - 2, "yes_ask_cents": ask}
    queried, bought, ended = step("calibrated", at, {"get_markets": {"markets": [quote]}})
    assert [name for name, _ in queried] == list(TOOLS[:3])
    order = {"ticker": market.ticker, "side": "yes", "action": "buy", "type": "limit", "count": 10, "price_cents": ask}
    assert bought == [("place_order", {**order, "time_in_force": "gtc"})]
    assert ended == [("done", {})]
    held = {"ticker": market.ticker, "yes_contracts": 45, "no_contracts": 0}
    full = step("calibrated", at, {"get_markets": {"markets": [quote]}, "get_positions": {"positions": [held]}})
    assert [name for name, _ in full[1]] != ["place_order"] or full[1][0][1]["side"] == "no", "at most 50 contracts of a side"
    bid = round(100 * p) + 10
    results = {
        "get_markets": {"markets": [{**quote, "yes_bid_cents": bid, "yes_ask_cents": bid + 2}]},
        "get_positions": {"positions": [{"ticker": market.ticker, "yes_contracts": 7, "no_contracts": 0}]},
        "get_resting_orders": {"orders": [{"order_id": 4, "ticker": market.ticker, "side": "yes", "action": "buy", "price_cents": bid}]},
    }
    cancelled, sold = step("calibrated", at, results)[1][:2]
    assert cancelled == ("cancel_order", {"order_id": 4})
    assert {name: sold[1][name] for name in ("action", "side", "count", "price_cents")} == {
        "action": "sell",
        "side": "yes",
        "count": 7,
        "price_cents": bid,
    }
    steps = [step("failing", at + timedelta(minutes=number), {"get_markets": {"markets": [quote]}}) for number in range(12)]
    prices = {arguments["price_cents"] for rounds in steps for calls in rounds for name, arguments in calls if name == "place_order"}
    assert prices == {150, ask} and [[]] in steps, "invalid orders, valid ones and refusals"


def known_at(market: Market) -> float:
    """Return the probability that a model knows when it trades two days before the close."""
    return truth().by_id(market.ticker, LATER, market.life.closes - 2 * DAY).probability  # type: ignore[union-attr]


# --- the endpoint --------------------------------------------------------------------------------------------------


def post(body: Any, key: str = "sandbox-key", waited: list[float] | None = None) -> httpx.Response:
    async def send() -> httpx.Response:
        async def sleep(seconds: float) -> None:
            (waited if waited is not None else []).append(seconds)

        endpoint = ModelEndpoint(truth(), Clock(to_datetime(LATER)), delay=2.5, sleep=sleep)
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
