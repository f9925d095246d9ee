"""Costs of model calls in integer micro-dollars: computed from the tokens used, or estimated before the call.

Prices come from the registry (`input_price`, `output_price`), else from LiteLLM's price map. The map is read from the installed package, without
importing LiteLLM or using the network; its version and digest are recorded. Other models have an unknown price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, InvalidOperation
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from bellwether.errors import ConfigError
from bellwether.journal.values import CostSource, Usage
from bellwether.models.providers import SEARCH

if TYPE_CHECKING:
    from bellwether.models.model import Model

Messages = Sequence[Mapping[str, Any]]

_MICRO = Decimal(1_000_000)
_FILE = "model_prices_and_context_window_backup.json"
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")

#: Characters of a prompt per token, a rule of thumb for English text; also used by the sandbox.
CHARACTERS_PER_TOKEN = 4
#: Tokens added to each message by the chat format.
_TOKENS_PER_MESSAGE = 8
#: Expected tokens of an answer, reasoning included, by reasoning effort, for models without observations.
#: Similar to KalshiBench's published answers: 460 to 1,800 on average without an effort, 6,650 with "xhigh".
EXPECTED_COMPLETION: Mapping[str | None, int] = {
    None: 1_000,
    "none": 500,
    "minimal": 600,
    "low": 900,
    "medium": 2_000,
    "high": 4_000,
    "xhigh": 6_600,
    "max": 10_000,
}


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of one call. None means unknown.

    prompt: including cached and written parts. completion: including reasoning.
    reasoning: the part of the completion. cached, written: parts of the prompt that were read from and written to the provider's cache.
    """

    prompt: int | None = None
    completion: int | None = None
    reasoning: int | None = None
    cached: int = 0
    written: int = 0


NO_TOKENS = Tokens()


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of one call in dollars per token; they may depend on the length of the prompt.

    prompt, completion: of these tokens. cached, written: of prompt tokens that are read from and written to the provider's cache.
    reasoning: of reasoning tokens of the completion.
    """

    prompt: Decimal
    completion: Decimal
    cached: Decimal
    written: Decimal
    reasoning: Decimal

    def of(self, tokens: Tokens) -> Decimal | None:
        """Return the cost in dollars of a call with these tokens; None if a count is unknown."""
        if tokens.prompt is None or tokens.completion is None:
            return None
        cached = min(tokens.cached, tokens.prompt)
        written = min(tokens.written, tokens.prompt - cached)
        reasoning = min(tokens.reasoning or 0, tokens.completion)
        return (
            (tokens.prompt - cached - written) * self.prompt
            + cached * self.cached
            + written * self.written
            + (tokens.completion - reasoning) * self.completion
            + reasoning * self.reasoning
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated tokens and cost of a number of calls.

    Attributes:
        calls: number of calls.
        prompt_tokens: of all calls, estimated from the prompts.
        completion_tokens: expected tokens of all calls.
        expected_cost, most_cost: micro-dollars; None if the price is unknown. most_cost assumes max_tokens for every answer.
        price_map: the version of the prices.
        basis: description of the token counts, expectations and source of the price.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    expected_cost: int | None
    most_cost: int | None
    price_map: str
    basis: str


# --- price map ---------------------------------------------------------------------------------------------------------


@cache
def _map_bytes() -> bytes:
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("reading the prices of models: the package litellm is not installed; install the project's dependencies")
    path = Path(spec.submodule_search_locations[0]) / _FILE
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"reading the prices of models: {_FILE} of litellm cannot be read ({error.strerror}); install litellm again"
        ) from None


@cache
def price_map() -> Mapping[str, Mapping[str, Any]]:
    """Return LiteLLM's price map: dollars per token and limits by model id. Raises `ConfigError` if LiteLLM is missing or damaged."""
    try:
        entries: Mapping[str, Mapping[str, Any]] = orjson.loads(_map_bytes())
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"reading the prices of models: {_FILE} of litellm is damaged ({error}); install litellm again") from None
    return entries


@cache
def price_map_version() -> str:
    """Return LiteLLM's version and a digest of its price map: "litellm 1.103.7 sha256:ab12cd34"."""
    return f"litellm {version('litellm')} sha256:{sha256(_map_bytes()).hexdigest()[:8]}"


def find_listing(model: str) -> Mapping[str, Any]:
    """Return the price map's entry for the model `provider/id`; {} without one. An entry listed as `id` counts if it belongs to that provider."""
    if model in price_map():
        return price_map()[model]
    provider, slash, bare = model.partition("/")
    entry = price_map().get(bare, {}) if slash else {}
    return entry if str(entry.get("litellm_provider", "")).startswith(provider) else {}


# --- prices ------------------------------------------------------------------------------------------------------------


def price(model: Model, prompt_tokens: int) -> Price | None:
    """Return the prices of a call whose prompt has `prompt_tokens` tokens; None for a model with unknown prices.

    Prices of the registry do not depend on caches or lengths. In the map, all tokens of a long prompt are charged at the higher price.
    """
    if model.input_price is not None and model.output_price is not None:
        prompt, completion = model.input_price / _MICRO, model.output_price / _MICRO
        return Price(prompt, completion, prompt, prompt, completion)
    return _listed_price(find_listing(model.model), prompt_tokens)


def _listed_price(entry: Mapping[str, Any], prompt_tokens: int) -> Price | None:
    """Return the prices in an entry of LiteLLM's price map, for a prompt of this length."""
    entry = _apply_band(entry, prompt_tokens)
    reached = [int(tier[1]) for name in entry if (tier := _TIER.fullmatch(name)) and prompt_tokens > int(tier[1]) * 1000]
    suffix = f"_above_{max(reached)}k_tokens" if reached else ""

    def rate(name: str) -> Decimal | None:
        value = entry.get(name + suffix)
        value = entry.get(name) if value is None else value
        return None if value is None else Decimal(str(value))

    prompt, completion = rate("input_cost_per_token"), rate("output_cost_per_token")
    if prompt is None or completion is None:
        return None
    cached, written, reasoning = (
        rate(name) for name in ("cache_read_input_token_cost", "cache_creation_input_token_cost", "output_cost_per_reasoning_token")
    )
    return Price(
        prompt=prompt,
        completion=completion,
        cached=prompt if cached is None else cached,
        written=prompt if written is None else written,
        reasoning=completion if reasoning is None else reasoning,
    )


def _apply_band(entry: Mapping[str, Any], prompt_tokens: int) -> Mapping[str, Any]:
    """Return the price map's `entry` with the prices for a prompt of this length, if its prices depend on the length."""
    for band in entry.get("tiered_pricing") or ():
        limits = band.get("range") or (0, 0)
        if limits[0] <= prompt_tokens <= limits[1]:
            return {**entry, **band}
    return entry


def price_list(model: Model) -> str:
    """Return where the prices used by `cost` come from: LiteLLM's map with its version, or the registry with both prices."""
    if model.input_price is None:
        return price_map_version()
    return f"registry: {model.input_price} in, {model.output_price} out"


def cost(model: Model, tokens: Tokens) -> int | None:
    """Return the cost of a call with these tokens at the listed prices, in micro-dollars; None if prices or tokens are unknown."""
    if model.is_free:
        return 0
    prices = price(model, tokens.prompt or 0)
    dollars = prices.of(tokens) if prices else None
    return None if dollars is None else _to_micro(dollars, ROUND_HALF_EVEN)


def _to_micro(dollars: Decimal, rounding: str) -> int:
    return int((dollars * _MICRO).to_integral_value(rounding))


# --- estimates ---------------------------------------------------------------------------------------------------------


def _prompt_texts(messages: Messages, parameters: Mapping[str, Any]) -> list[str]:
    """Return all texts of a request that count as prompt: messages, tools and response format."""
    contents = [content if isinstance(content := message.get("content"), str) else _dump_json(content) for message in messages]
    calls = [_dump_json(message["tool_calls"]) for message in messages if message.get("tool_calls")]
    return contents + calls + [_dump_json(parameters[name]) for name in ("tools", "response_format") if parameters.get(name)]


def _dump_json(value: Any) -> str:
    return "" if value is None else orjson.dumps(value).decode()


def count_tokens(messages: Messages, parameters: Mapping[str, Any] | None = None) -> int:
    """Estimate the tokens of a prompt: one per four characters, and eight per message."""
    texts = _prompt_texts(messages, parameters or {})
    return sum(-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts) + _TOKENS_PER_MESSAGE * len(messages)


def _max_completion_tokens(model: Model, parameters: Mapping[str, Any]) -> int:
    """Return the maximum number of tokens of an answer under these parameters."""
    return int(parameters.get("max_completion_tokens") or parameters.get("max_tokens") or model.max_tokens)


def compute_max_cost(model: Model, messages: Messages, parameters: Mapping[str, Any] | None = None) -> int | None:
    """Return the maximum cost of one call, to be reserved in budgets: micro-dollars rounded up; None if the prices are unknown.

    Assumes one token per byte of the prompt, the maximum of any tokenizer, and an answer of `max_tokens`, each at its highest price.
    """
    if model.is_free:
        return 0
    if model.provider == SEARCH:
        return None if model.search_price is None else _to_micro(model.search_price / 1000, ROUND_CEILING)
    parameters = model.request_parameters if parameters is None else parameters
    sizes = (len(text.encode("utf-8", "surrogatepass")) for text in _prompt_texts(messages, parameters))
    prompt = sum(sizes) + _TOKENS_PER_MESSAGE * len(messages)
    prices = price(model, prompt)
    if prices is None:
        return None
    dollars = prompt * max(prices.prompt, prices.written) + _max_completion_tokens(model, parameters) * max(
        prices.completion, prices.reasoning
    )
    return _to_micro(dollars, ROUND_CEILING)


def estimate(
    model: Model,
    prompts: Sequence[Messages],
    *,
    parameters: Mapping[str, Any] | None = None,
    completion_tokens: float | None = None,
) -> Estimate:
    """Estimate tokens and cost of sending each of `prompts` to `model` once. No call is made.

    parameters: sent in addition to the messages; the model's own by default.
    completion_tokens: average of this model's answers so far; by default the typical number for its reasoning effort.
    """
    parameters = model.request_parameters if parameters is None else parameters
    prompt_tokens = [count_tokens(prompt, parameters) for prompt in prompts]
    usual = EXPECTED_COMPLETION.get(parameters.get("reasoning_effort"), EXPECTED_COMPLETION[None])
    per_answer = min(_max_completion_tokens(model, parameters), round(usual if completion_tokens is None else completion_tokens))
    source = "assumed for a model that has not answered yet" if completion_tokens is None else "the mean of this model's answers so far"
    return Estimate(
        calls=len(prompts),
        prompt_tokens=sum(prompt_tokens),
        completion_tokens=per_answer * len(prompts),
        expected_cost=_sum([cost(model, Tokens(tokens, per_answer)) for tokens in prompt_tokens]),
        most_cost=_sum([compute_max_cost(model, prompt, parameters) for prompt in prompts]),
        price_map=price_map_version(),
        basis=f"prompts at {CHARACTERS_PER_TOKEN} characters per token; {per_answer} tokens per answer, {source}; {_describe_price(model)}",
    )


def _sum(costs: list[int | None]) -> int | None:
    """Return the sum of the costs; None if any is unknown."""
    known = [value for value in costs if value is not None]
    return sum(known) if len(known) == len(costs) else None


def _describe_price(model: Model) -> str:
    if model.is_free:
        return "it is free"
    if model.input_price is not None:
        return "prices of the registry"
    if price(model, 0) is not None:
        return "prices of LiteLLM's map"
    return f"price unknown: LiteLLM's map does not have {model.model}; give input_price and output_price in models.toml"


# --- usage ----------------------------------------------------------------------------------------------------------

#: Usage of a request rejected before any work.
UNBILLED = Usage(cost=0, cost_source=CostSource.UNBILLED)
#: Ticks per dollar, the unit of charges reported by xAI (docs.x.ai, cost tracking).
_MICRO_PER_TICK = Decimal(1) / 10_000
#: Larger numbers of tokens or money are ignored.
_LARGEST = 2**62


def build_usage(model: Model, tokens: Tokens = NO_TOKENS, usage: Mapping[str, Any] | None = None) -> Usage:
    """Build the journal's record of an attempt's tokens and cost.
    usage: the provider's own object; a cost in it replaces the one from the price list.
    """
    charged = None if model.is_free else _reported_cost(model.provider, usage or {})
    listed = _storable(cost(model, tokens)) if charged is None else None
    source = CostSource.PROVIDER if charged is not None else CostSource.PRICE_LIST if listed is not None else None
    prices = price_list(model) if source is CostSource.PRICE_LIST else None
    return Usage(tokens.prompt, tokens.completion, tokens.reasoning, charged if charged is not None else listed, source, prices)


def _reported_cost(provider: str, usage: Mapping[str, Any]) -> int | None:
    """Return the cost that a provider reports in its usage object, in micro-dollars; None if it reports no cost."""
    if provider == "openrouter":
        return _openrouter(usage)
    if provider == "xai":
        ticks = _number(usage.get("cost_in_usd_ticks"))
        return None if ticks is None else _round_up_cost(ticks * _MICRO_PER_TICK)
    if provider == "perplexity":
        charged = usage.get("cost")
        dollars = _number(charged.get("total_cost") if isinstance(charged, Mapping) else charged)
        return None if dollars is None else _round_up_cost(dollars * _MICRO)
    return None


def _openrouter(usage: Mapping[str, Any]) -> int | None:
    """Return the cost that OpenRouter reports. For calls with the user's own key at the upstream provider, this includes that provider's charge."""
    dollars = _number(usage.get("cost"))
    if dollars is None:
        return None
    details = usage.get("cost_details")
    upstream = _number(details.get("upstream_inference_cost")) if isinstance(details, Mapping) else None
    if usage.get("is_byok") is True:
        return None if upstream is None else _round_up_cost((dollars + upstream) * _MICRO)
    return _round_up_cost(dollars * _MICRO)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 <= number < _LARGEST else None


def _round_up_cost(micro: Decimal) -> int | None:
    return _storable(int(micro.to_integral_value()))


def _storable(micro: int | None) -> int | None:
    """Return an amount in micro-dollars; None if it is too large for the journal."""
    return micro if micro is None or micro < _LARGEST else None
