"""Prompts: the conversation about one question, and the repair conversation that requests the format again.

A question is untrusted text. It is quoted without characters that could end the quotation, start a line of the prompt or form a tag. The
prompt states the date of the forecast and nothing that became known later.
"""

from __future__ import annotations

import copy
import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bellwether.errors import ConfigError
from bellwether.forecasting.elicitation import Elicitation, protocol
from bellwether.forecasting.parsing.result import Reading

#: Version of the protocol: raise it with every change of the text below or in elicitation.py.
VERSION = "1"

#: Number of final characters of its answer that a model sees in the repair conversation.
LONGEST_SHOWN = 2_000

Message = dict[str, str]


def messages(question: Mapping[str, Any], as_of: datetime, elicitation: Elicitation = "tags") -> list[Message]:
    """Build the system and user messages for a row of benchmark/questions, as of an instant with its offset.

    Uses `source`, `market_id`, `question` and `description` of the row. Raises `ConfigError` for an instant without an offset.
    """
    if as_of.tzinfo is None:
        raise ConfigError(f"prompt for {question['market_id']!r}: as_of {as_of.isoformat()} has no offset; give an instant in UTC")
    description = "\n".join(f"> {one}".rstrip() for one in lines(question["description"]))
    asked = f"""Market: {line(question["source"])} {line(question["market_id"])}
Today's date: {as_of.astimezone(UTC):%Y-%m-%d} (UTC)

Question: {line(question["question"])}

Description:
{description}

Predict whether the outcome will be "yes" or "no"."""
    return [{"role": "system", "content": protocol(elicitation).instructions}, {"role": "user", "content": asked}]


def response_format(elicitation: Elicitation) -> dict[str, Any] | None:
    """Return the parameter `response_format` of the call; None if only the prompt requests the format."""
    return copy.deepcopy(protocol(elicitation).response_format)  # type: ignore[return-value]


def repair(asked: Sequence[Message], response: str | None, reading: Reading, elicitation: Elicitation = "tags") -> list[Message]:
    """Build the repair conversation: the prompt, the end of the model's answer, and its defect."""
    said = (response or "").strip()[-LONGEST_SHOWN:].encode(errors="replace").decode()
    kind = (reading.problem or reading.contradiction or "no answer").partition(":")[0]
    again = f"""Your answer could not be read ({kind}). Do not reason again. Give the answer that you came to, in this form and without \
anything else:
{protocol(elicitation).form}"""
    return [*asked, {"role": "assistant", "content": said or "(nothing)"}, {"role": "user", "content": again}]


def prompt_hash(asked: Sequence[Message]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the messages."""
    text = json.dumps([{"role": one["role"], "content": one["content"]} for one in asked], separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def line(text: str | None) -> str:
    """Format untrusted text on one line."""
    return " ".join(" ".join(lines(text)).split())


def lines(text: str | None) -> list[str]:
    """Return the lines of untrusted text without non-text characters, and with `<` and `>` replaced so that it contains no tags."""
    parts = (text or "").splitlines()
    shown = "\n".join(parts)
    if not all(map(str.isprintable, parts)):
        shown = "".join(character if character in "\n\t" or _is_text(character) else " " for character in shown)
    return [one.rstrip() for one in shown.replace("<", "&lt;").replace(">", "&gt;").strip().split("\n")]


def _is_text(character: str) -> bool:
    """Return whether a character is text: no control character, no mark that reorders or hides text, no surrogate."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs")
