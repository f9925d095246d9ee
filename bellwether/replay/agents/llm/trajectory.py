"""Trajectory of a language model agent: a JSONL file that `--replay` answers from.

The first line describes the run. Each further line is a request to the model, its answer and the results of the tools that it called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from bellwether.errors import LakeError
from bellwether.files import atomic_file
from bellwether.replay.agents.limits import RunStopped


class Mismatch(RunStopped):
    """A replayed run sends another request than the recorded run. The message names the file, the line and the digests of both requests."""


class Head(BaseModel):
    """Description of a run.

    Attributes:
        run: Episode, rules, settings and model, by name.
        cadence: Time between decisions, ns.
        rounds: Maximum number of answers per step.
        prompt: System prompt.
        tools: Tools in the format of the OpenAI API.
    """

    model_config = ConfigDict(extra="forbid")
    run: dict[str, Any]
    cadence: int
    rounds: int
    prompt: str
    tools: list[dict[str, Any]]


class ToolCall(BaseModel):
    """Tool call as the model wrote it, and the result text that the model received.

    Status `rejected`: the exchange refused the order. `error`: invalid arguments. `unknown`: unknown tool. `skipped`: after done(), or above
    the limit of calls. `pending`: not executed yet.
    """

    model_config = ConfigDict(extra="forbid")
    id: str
    name: str
    arguments: str
    result: str = ""
    status: Literal["ok", "rejected", "error", "unknown", "skipped", "pending"] = "pending"


class Round(BaseModel):
    """Request to the model, its answer, and the results of its tool calls.

    Attributes:
        step: Number of the decision, from 0.
        ts: Simulated time, ns UTC.
        request: SHA-256 of the request's messages and tools.
        state: State text of the step, in its first round.
        outcome: Outcome in the journal; ok for an answer.
        reason: Reason of a missing answer.
        message: Answer as it appears in the messages of the next round; None without an answer.
        reasoning: Reasoning of the answer, if the provider shows it.
        calls: Tool calls of the answer.
        ended: End of the step, in its last round. done: the model called done(). no_tool: it called no tool. rounds: no rounds remain.
            failed: there was no answer.
        key: Key of the call in the journal.
        prompt_tokens, completion_tokens, cost_microdollars: Sums of all attempts; None where unknown.
    """

    model_config = ConfigDict(extra="forbid")
    step: int = 0
    ts: int = 0
    request: str = ""
    state: str | None = None
    outcome: str
    reason: str = ""
    message: dict[str, Any] | None = None
    reasoning: str | None = None
    calls: list[ToolCall] = []
    ended: Literal["done", "no_tool", "rounds", "failed"] | None = None
    key: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_microdollars: int | None


@dataclass(frozen=True)
class Trajectory:
    """Description and requests of a run, in the order of the file's lines."""

    head: Head
    rounds: list[Round]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a trajectory. Raises `LakeError`, naming the line, if it is missing or damaged."""
        number = 1
        try:
            first, *lines = path.read_bytes().splitlines()
            head, rounds = Head.model_validate_json(first), list[Round]()
            for number, line in enumerate(lines, start=2):  # noqa: B007 - for the error
                rounds.append(Round.model_validate_json(line))
        except OSError as error:
            raise LakeError(f"reading {path}: {error.strerror or error}; give the file of a trajectory") from None
        except (ValidationError, ValueError) as error:
            detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "the file is empty"
            raise LakeError(
                f"reading {path}, line {number}: it is not a line of a trajectory ({detail}); delete it and repeat the run: answers are in the journal"
            ) from None
        return cls(head, rounds)

    def write(self, path: Path) -> None:
        """Write the trajectory atomically. Raises `BellwetherError` if it cannot be written."""
        with atomic_file(path) as draft:
            draft.write_text("".join(f"{line.model_dump_json()}\n" for line in (self.head, *self.rounds)), encoding="utf-8")


def request_digest(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256, in hex, of a request's messages and tools."""
    return hashlib.sha256(json.dumps([messages, tools], sort_keys=True).encode()).hexdigest()
