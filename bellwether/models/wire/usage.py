"""Usage of one attempt as the journal stores it: tokens, and the cost from the provider's report or a price list."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from bellwether.journal.facts import CostSource, Usage
from bellwether.models.prices import cost, price_list
from bellwether.models.wire.message import Message

if TYPE_CHECKING:
    from bellwether.models.model import Model

#: A request that was turned away before any work was done.
UNBILLED = Usage(cost=0, cost_source=CostSource.UNBILLED)
_MICRO = Decimal(1_000_000)
#: xAI reports what it charged in ticks (docs.x.ai, cost tracking): 10^10 ticks are a dollar.
_MICRO_PER_TICK = Decimal(1) / 10_000
#: Beyond this neither tokens nor money are believed.
_LARGEST = 2**62


def usage_of(model: Model, message: Message) -> Usage:
    """What an answer took. The provider's own report of its cost comes first: it is what was charged."""
    tokens = message.tokens
    charged = None if model.is_free else _reported(model.provider, message.usage)
    listed = _stored(cost(model, tokens)) if charged is None else None
    source = CostSource.PROVIDER if charged is not None else CostSource.PRICE_LIST if listed is not None else None
    prices = price_list(model) if source is CostSource.PRICE_LIST else None
    return Usage(tokens.prompt, tokens.completion, tokens.reasoning, charged if charged is not None else listed, source, prices)


def _reported(provider: str, usage: Mapping[str, Any]) -> int | None:
    """Micro-dollars that the provider says it charged; None where it does not say."""
    if provider == "openrouter":
        return _openrouter(usage)
    if provider == "xai":
        ticks = _number(usage.get("cost_in_usd_ticks"))
        return None if ticks is None else _whole(ticks * _MICRO_PER_TICK)
    if provider == "perplexity":
        charged = usage.get("cost")
        dollars = _number(charged.get("total_cost") if isinstance(charged, Mapping) else charged)
        return None if dollars is None else _whole(dollars * _MICRO)
    return None


def _openrouter(usage: Mapping[str, Any]) -> int | None:
    """OpenRouter's charge; where it used the user's own key of another provider, with what that one charges."""
    dollars = _number(usage.get("cost"))
    if dollars is None:
        return None
    details = usage.get("cost_details")
    upstream = _number(details.get("upstream_inference_cost")) if isinstance(details, Mapping) else None
    if usage.get("is_byok") is True:
        return None if upstream is None else _whole((dollars + upstream) * _MICRO)
    return _whole(dollars * _MICRO)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 <= number < _LARGEST else None


def _whole(micro: Decimal) -> int | None:
    return _stored(int(micro.to_integral_value()))


def _stored(micro: int | None) -> int | None:
    """Micro-dollars that the journal can hold; None for more, which nobody charged."""
    return micro if micro is None or micro < _LARGEST else None
