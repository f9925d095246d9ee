"""Verbatim prompts and answers of forecasts and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import polars as pl

from bellwether.errors import ConfigError
from bellwether.forecasting.prompt import VERSION, Elicitation, Message, messages, prompt_hash
from bellwether.pages.model import TextEntry
from bellwether.pages.render import File, data_script
from bellwether.pages.values import show_controls, slug

#: Minimum length of a shared end of prompts.
_SHARED = 1_000

#: Facts about a forecast of a language model.
DETAILS = (
    "as_of",
    "answer",
    "confidence",
    "parsed_by",
    "contradiction",
    "elicitation",
    "prompt_hash",
    "attempts",
    "output_tokens",
    "cost",
)
#: Columns of benchmark/forecasts that `forecast_entries` needs.
COLUMNS = ("question_id", "forecaster", "sample", "p_yes", "error", "repaired", "reasoning", "raw_response", "call_key", *DETAILS)

Prompts = dict[tuple[datetime, str], tuple[str, list[Message]]]


def anchor(forecaster: str) -> str:
    """Return the anchor of a forecaster's texts on a question's page."""
    return f"said-{slug(forecaster)}"


def forecast_entries(question: Mapping[str, Any], asked: Sequence[Mapping[str, Any]]) -> list[TextEntry]:
    """Build an entry per forecaster with the prompt and answer for a question. asked: forecasts by language models (rows of benchmark/forecasts)."""
    prompts: Prompts = {}
    several = any(row["sample"] for row in asked)
    texts: dict[str, list[tuple[str, str, str]]] = {}
    for row in asked:
        sample = f"sample {row['sample']}: " if several else ""
        texts.setdefault(row["forecaster"], []).extend(
            (f"{sample}{label}", body, "") for label, body in _list_texts(question, row, prompts)
        )
    return [TextEntry(anchor(name), name, own) for name, own in texts.items()]


def _list_texts(question: Mapping[str, Any], row: Mapping[str, Any], prompts: Prompts) -> Iterator[tuple[str, str]]:
    for message in _rebuild_prompt(question, row, prompts):
        yield f"prompt, {message['role']}", message["content"]
    if row["repaired"]:
        yield "retry of the form", "The form of the first answer was invalid; one more request asked for the form only."
    if row["reasoning"]:
        yield "reasoning", row["reasoning"]
    if row["raw_response"]:
        yield "response, verbatim", row["raw_response"]
    yield "parsed as", _describe_result(row)


def _describe_result(row: Mapping[str, Any]) -> str:
    """Describe in words the parsed answer of a forecast and the details of the model call."""
    read = f"probability of yes {row['p_yes']}" if row["p_yes"] is not None else f"no forecast: {row['error'] or 'no reason is known'}"
    details = [f"{name.replace('_', ' ')}: {row[name]}" for name in DETAILS if row[name] is not None]
    if row["call_key"] is not None:
        details.append(f"whole conversation: bellwether journal show {row['call_key']}")
    return "\n".join([read, *details])


def _rebuild_prompt(question: Mapping[str, Any], row: Mapping[str, Any], prompts: Prompts) -> Sequence[Message]:
    """Rebuild the prompt of a forecast from the question; only a note if the hash of the rebuilt prompt differs from the recorded one.

    row: the forecast. prompts: prompts that were rebuilt already, which this function extends.
    """
    if row["prompt_hash"] is None or row["as_of"] is None or row["elicitation"] is None:
        return []
    key = (row["as_of"], row["elicitation"])
    if key not in prompts:
        form, _, version = row["elicitation"].partition("/")
        try:
            prompt = messages(question, row["as_of"], cast("Elicitation", form)) if version == VERSION else []
        except ConfigError:
            prompt = []
        prompts[key] = prompt_hash(prompt), prompt
    recomputed_hash, prompt = prompts[key]
    if recomputed_hash == row["prompt_hash"]:
        return prompt
    note = f"The prompt is of another version of the protocol ({row['elicitation']}, hash {row['prompt_hash']}); bellwether journal show {row['call_key']} prints it."
    return [{"role": "not shown", "content": note}]


@dataclass(frozen=True, slots=True)
class DecisionTexts:
    """Messages of a cohort's decisions in one week: prompts and answers.

    All prompts of a week end with the same list of markets, which is stored once, in a file of its own. end: that list. path: path of the file.
    """

    by_decision: Mapping[str, Sequence[tuple[str, str]]]
    end: str
    path: str

    @classmethod
    def of(cls, messages: pl.DataFrame, path: str) -> DecisionTexts:
        """Collect the messages by decision, and find the end that all prompts share. messages: rows of arena/messages."""
        by_decision: dict[str, list[tuple[str, str]]] = {}
        for name, role, content in messages.sort("decision_id", "number").select("decision_id", "role", "content").iter_rows():
            by_decision.setdefault(name, []).append((role, show_controls(content)))
        return cls(by_decision, _common_end([content for own in by_decision.values() for role, content in own if role == "user"]), path)

    def files(self) -> Iterator[File]:
        """Yield the file with the end that all prompts share, if there is such an end."""
        if self.end:
            yield f"{self.path}.js", data_script(self.path, self.end)

    def entries(self, decision_id: str) -> list[TextEntry]:
        """Build the entries of a decision's prompt and answers; empty if the decision has no messages."""
        prompt, answers = list[tuple[str, str, str]](), list[TextEntry]()
        for role, content in self.by_decision.get(decision_id, ()):
            if role == "assistant":
                title = f"Answer {len(answers) + 1}"
                answers.append(TextEntry(f"answer-{len(answers) + 1}", title, [("verbatim", content, "")]))
            elif role == "user" and self.end:
                prompt.append((role, content.removesuffix(self.end), self.path))
            else:
                prompt.append((role, content, ""))
        return [TextEntry("prompt", "Prompt", prompt), *answers] if prompt else answers


def _common_end(texts: Sequence[str]) -> str:
    """Return the longest end, from a line break on, that all texts share; empty if shorter than `_SHARED` characters."""
    if len(texts) < 2:
        return ""
    least = min(map(len, texts))
    # Binary search compares slices; a comparison by character takes seconds for the prompts of a year.
    low, high = 0, least
    while low < high:
        middle = (low + high + 1) // 2
        if len({one[-middle:] for one in texts}) == 1:
            low = middle
        else:
            high = middle - 1
    common = texts[0][len(texts[0]) - low :]
    line = common.find("\n")
    end = common[line:] if line >= 0 else ""
    return end if len(end) >= _SHARED else ""
