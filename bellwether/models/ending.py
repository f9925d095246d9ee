"""The finish reasons of all providers, in one table."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Ending(Enum):
    """The end of an answer.

    NORMAL: by the model's own choice, or with a call of a tool. CUT: at a limit of tokens, of the context or of time.
    FILTERED: withheld by a filter, or refused. BROKEN: by an error of the provider. UNKNOWN: no reason is given, or one that no provider documents.
    """

    NORMAL = auto()
    CUT = auto()
    FILTERED = auto()
    BROKEN = auto()
    UNKNOWN = auto()


_NORMAL = """
stop eos eos_token stop_token stop_sequence stop_sequences stop_criteria_met end_turn end_of_turn end_of_text endoftext complete completed finish finished done
tool_calls tool_call tool_use function_call function_calls
"""
_CUT = """
length max_tokens max_token max_length max_len max_new_tokens max_output_tokens max_completion_tokens max_tokens_reached model_length token_limit
token_limit_reached output_limit limit incomplete not_finished pause_turn truncated
max_context context_length context_length_exceeded model_context_window_exceeded context_window_exceeded error_limit time_limit max_time
"""
_FILTERED = """
content_filter content_filtered content_filter_error refusal refused safety sensitive recitation blocklist blocked prohibited_content spii image_safety
guardrail_intervened guardrails error_toxic
"""
_BROKEN = """
error failed abort aborted cancelled canceled user_cancel timeout network_error insufficient_system_resource
malformed_function_call malformed_tool_use malformed_model_output unexpected_tool_call
"""
_ENDINGS: Final = {
    reason: ending
    for ending, reasons in ((Ending.NORMAL, _NORMAL), (Ending.CUT, _CUT), (Ending.FILTERED, _FILTERED), (Ending.BROKEN, _BROKEN))
    for reason in reasons.split()
}
#: The names of enumerations, which some gateways leave before a reason.
_PREFIXES = ("finish_reason_", "finishreason.", "stop_reason_", "stopreason.", "reason_")


def ending_of(reason: str | None) -> Ending:
    """The end that a finish reason means, in any provider's spelling; UNKNOWN without one."""
    word = (reason or "").strip().lower().replace("-", "_").replace(" ", "_")
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    return _ENDINGS.get(word, Ending.UNKNOWN)
