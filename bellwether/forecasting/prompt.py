"""The conversation about one question, and the repair conversation that requests the form again.

A question is untrusted text: it is quoted without any character that could end the quotation, begin a line of ours or make a tag. The
prompt states the date of the forecast, and nothing that became known later.
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

#: Version of the protocol: raise it with every change of the words below or in elicitation.py.
VERSION = "1"

#: Characters of its own answer that a retried model is shown: the last ones, which contain the answer.
LONGEST_SHOWN = 2_000

Message = dict[str, str]


def messages(question: Mapping[str, Any], as_of: datetime, elicitation: Elicitation = "tags") -> list[Message]:
    """The system's and the user's message for a row of benchmark/questions, as of an instant with its offset.

    Of the row, `source`, `market_id`, `question` and `description` are used. Raises `ConfigError` for an instant without an offset.
    """
    if as_of.tzinfo is None:
        raise ConfigError(f"asking about {question['market_id']!r}: as_of {as_of.isoformat()} has no offset; give an instant in UTC")
    description = "\n".join(f"> {one}".rstrip() for one in lines(question["description"]))
    asked = f"""Market: {line(question["source"])} {line(question["market_id"])}
Today's date: {as_of.astimezone(UTC):%Y-%m-%d} (UTC)

Question: {line(question["question"])}

Description:
{description}

Predict whether the outcome will be "yes" or "no"."""
    return [{"role": "system", "content": protocol(elicitation).instructions}, {"role": "user", "content": asked}]


def response_format(elicitation: Elicitation) -> dict[str, Any] | None:
    """The parameter `response_format` of the call; None if only the prompt requests the form."""
    return copy.deepcopy(protocol(elicitation).response_format)  # type: ignore[return-value]


def repair(asked: Sequence[Message], response: str | None, reading: Reading, elicitation: Elicitation = "tags") -> list[Message]:
    """The conversation of a retry for the form only: the prompt, the end of the model's answer, and its defect."""
    said = (response or "").strip()[-LONGEST_SHOWN:].encode(errors="replace").decode()
    kind = (reading.problem or reading.contradiction or "no answer").partition(":")[0]
    again = f"""Your answer could not be read ({kind}). Do not reason again. Give the answer that you came to, in this form and without \
anything else:
{protocol(elicitation).form}"""
    return [*asked, {"role": "assistant", "content": said or "(nothing)"}, {"role": "user", "content": again}]


def prompt_hash(asked: Sequence[Message]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the messages, the same in every process."""
    text = json.dumps([{"role": one["role"], "content": one["content"]} for one in asked], separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def line(text: str | None) -> str:
    """An untrusted text on one line."""
    return " ".join(" ".join(lines(text)).split())


def lines(text: str | None) -> list[str]:
    """The lines of an untrusted text, without what is not text, and with `<` and `>` spelled so that no tag can stand in it."""
    parts = (text or "").splitlines()
    shown = "\n".join(parts)
    if not all(map(str.isprintable, parts)):
        shown = "".join(character if character in "\n\t" or _is_text(character) else " " for character in shown)
    return [one.rstrip() for one in shown.replace("<", "&lt;").replace(">", "&gt;").strip().split("\n")]


def _is_text(character: str) -> bool:
    """Neither control characters, invisible marks that reorder or hide text, nor halves of surrogate pairs."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs")
