"""Conversations with a model: the prompt of a question, and the repair request for the format of an answer.

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

Message = dict[str, Any]


def messages(question: Mapping[str, Any], as_of: datetime, elicitation: Elicitation = "tags", further: str = "") -> list[Message]:
    """Build the system and user messages for a question.

    as_of: time of the forecast, with UTC offset. elicitation: name of the protocol. further: end of the instructions.

    question: row of benchmark/questions, of which `source`, `market_id`, `question` and `description` are used.
    Raises `ConfigError` for a time without an offset.
    """
    if as_of.tzinfo is None:
        raise ConfigError(f"prompt for {question['market_id']!r}: as_of {as_of.isoformat()} has no offset; give an instant in UTC")
    description = "\n".join(f"> {text}".rstrip() for text in lines(question["description"]))
    prompt = f"""Market: {line(question["source"])} {line(question["market_id"])}
Today's date: {as_of.astimezone(UTC):%Y-%m-%d} (UTC)

Question: {line(question["question"])}

Description:
{description}

Predict whether the outcome will be "yes" or "no"."""
    return [{"role": "system", "content": protocol(elicitation).instructions + further}, {"role": "user", "content": prompt}]


def response_format(elicitation: Elicitation) -> dict[str, Any] | None:
    """Return the parameter `response_format` of model calls; None if the protocol describes the format only in the prompt."""
    return copy.deepcopy(protocol(elicitation).response_format)  # type: ignore[return-value]


def repair(prompt: Sequence[Message], response: str | None, reading: Reading, elicitation: Elicitation = "tags") -> list[Message]:
    """Build the messages of a repair request: the prompt, the end of the model's answer, and what is wrong with the answer. response,
    reading: the answer and its parsing.
    """
    text = (response or "").strip()[-LONGEST_SHOWN:].encode(errors="replace").decode()
    kind = (reading.problem or reading.contradiction or "no answer").partition(":")[0]
    request = f"""Your answer could not be read ({kind}). Do not reason again. Give the answer that you came to, in this form and without \
anything else:
{protocol(elicitation).form}"""
    return [*prompt, {"role": "assistant", "content": text or "(nothing)"}, {"role": "user", "content": request}]


def prompt_hash(prompt: Sequence[Message]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the messages."""
    parts = [{"role": message["role"], "content": message["content"]} for message in prompt]
    text = json.dumps(parts, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def line(text: str | None) -> str:
    """Convert untrusted text to a single line for a prompt."""
    return " ".join(" ".join(lines(text)).split())


def lines(text: str | None) -> list[str]:
    """Split untrusted text into lines for a prompt, without control characters and with `<` and `>` escaped, so that it cannot form tags."""
    parts = (text or "").splitlines()
    safe = "\n".join(parts)
    if not all(map(str.isprintable, parts)):
        safe = "".join(character if character in "\n\t" or _is_text(character) else " " for character in safe)
    return [part.rstrip() for part in safe.replace("<", "&lt;").replace(">", "&gt;").strip().split("\n")]


def _is_text(character: str) -> bool:
    """Return True unless the character is a control character, a mark that reorders or hides text, or a surrogate."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs")
