"""Language model agent, and an agent that repeats its trajectory without a model.

Each step is a new conversation: the system prompt of the episode, the state as text, and rounds of tool calls. Tool results always come from
the simulator, also when stored answers are repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, TypeAdapter, ValidationError

from bellwether.errors import BellwetherError, ConfigError
from bellwether.models.model import model as registered
from bellwether.models.tool_calls import build_turn
from bellwether.places import place
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.limits import RunStopped
from bellwether.replay.agents.llm.prompt import state, system_prompt
from bellwether.replay.agents.llm.tools import MOST_CALLS, Toolbox
from bellwether.replay.agents.llm.trajectory import Head, Mismatch, Round, Trajectory, request_digest
from bellwether.replay.engine.codes import ENGINE_VERSION
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.forecasting.forecaster import Models
    from bellwether.models.client import Answer, ModelClient, NoAnswer
    from bellwether.models.model import Model
    from bellwether.replay.agents.context import AgentContext
    from bellwether.replay.agents.port import Conditions
    from bellwether.replay.agents.records import EpisodeInfo

log = logging.getLogger(__name__)

#: Settings of PredictionMarketBench (Table 2).
ROUNDS, TEMPERATURE = 3, 0.0
#: Journal purpose under which costs and failures are counted.
PURPOSE = "replay/agent"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

Messages = Sequence[Mapping[str, Any]]


class _Conversing(Agent):
    """Shared part of `LLMAgent` and `LLMReplay`: executes the steps of an episode with answers of a model or of a trajectory."""

    timed = False
    _rounds: int

    def _prepare(self, ctx: AgentContext, episode: EpisodeInfo) -> Conditions:
        """Build the toolbox and the prompt of an episode. Returns the terms under which it is traded."""
        terms: Conditions = ctx._port.read("conditions")
        self._toolbox = Toolbox(episode)
        self._prompt = system_prompt(episode, terms, self._rounds)
        return terms

    def act(self, ctx: AgentContext) -> None:
        """Execute one step: get at most `rounds` answers, and execute the tool calls of each. Raises `RunStopped` without a source of answers."""
        shown = state(ctx)
        messages: list[Mapping[str, Any]] = [{"role": "system", "content": self._prompt}, {"role": "user", "content": shown}]
        for number in range(self._rounds):
            request = request_digest(messages, self._toolbox.definitions)
            answer = self._answer(ctx.step, number, messages, request)
            calls, done = self._toolbox.execute_calls(ctx, answer.calls)
            ended: str | None
            if answer.outcome != "ok":
                ended = "failed"
            elif done:
                ended = "done"
            elif not calls:
                ended = "no_tool"
            else:
                ended = "rounds" if number + 1 == self._rounds else None
            source = {"step": ctx.step, "ts": ctx.now_ns, "request": request, "state": None if number else shown}
            self._record(answer.model_copy(update={**source, "calls": calls, "ended": ended}))
            if ended is not None:
                return
            assert answer.message is not None
            results = [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in calls]
            messages = [*messages, answer.message, *results]

    @abstractmethod
    def _answer(self, step: int, number: int, messages: Messages, request: str) -> Round:
        """Return the answer of a round, whose calls are not executed yet. number: number of the round. request: digest of the request."""

    def _record(self, finished: Round) -> None:
        """Record a round with the results of its calls."""


class LLMAgent(_Conversing):
    """Agent whose decisions are tool calls of a language model.

    Answers are stored in the journal: repeating a run that was stopped sends only the requests without a stored result. The trajectory is
    written when the run ends.

    Args:
        model: Name of the model in the registry.
        rounds: Maximum number of model answers per step.
        temperature: Sampling temperature, 0 to 2. Default: 0, or the temperature of the registry entry for models that accept only one.
        sample: Number that distinguishes this run's answers from those of another run with the same settings.
        budget: Maximum cost of the run, dollars, including earlier parts of a repeated run. Default: that of the settings.
        trajectory: File of the trajectory. Default: a file per run below the world's home.

    Attributes:
        models: Source of the model client. Default: a client of this process.
    """

    name = "llm"
    models: Models | None = None

    def __init__(
        self,
        *,
        model: str,
        rounds: int = ROUNDS,
        temperature: float | None = None,
        sample: int = 0,
        budget: Decimal | float | str | None = None,
        trajectory: Path | str | None = None,
    ) -> None:
        self.model: Model = registered(model)
        self._rounds: int = _check("rounds", rounds, Annotated[int, Field(strict=True, ge=1, le=20)])
        self._sample: int = _check("sample", sample, Annotated[int, Field(strict=True, ge=0, lt=2**31)])
        self._temperature = _temperature(self.model, _check("temperature", temperature, Annotated[float, Field(ge=0, le=2)] | None))
        self._budget: Decimal = _check("budget", settings().budget if budget is None else budget, Annotated[Decimal, Field(ge=0)])
        self._path = None if trajectory is None else place(trajectory)

    def recreate(self) -> Self:
        """Return a new agent with the same parameters, name and model client."""
        agent = super().recreate()
        agent.models = self.models
        return agent

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Describe the run, without a request to the model. Raises `RunStopped` if the file has the trajectory of another run."""
        from bellwether.models.client import WorldModels, journal_model_name

        terms = self._prepare(ctx, episode)
        parameters = {**self.model.request_parameters, **({} if self._temperature is None else {"temperature": self._temperature})}
        run: dict[str, Any] = {
            "episode": episode.id,
            "episode_digest": terms.tape_digest,
            "rules": terms.rules.name,
            "settings": terms.settings.values(),
            "engine": ENGINE_VERSION,
            "agent": self.name,
            "model": journal_model_name(self.model),
            "parameters": parameters,
            "sample": self._sample,
            "seed": f"{ctx.seed:064x}",
        }
        head = Head(run=run, cadence=terms.settings.cadence, rounds=self._rounds, prompt=self._prompt, tools=self._toolbox.definitions)
        digest = hashlib.sha256(head.model_dump_json().encode()).hexdigest()[:16]
        name = f"{_UNSAFE.sub('_', self.name)}-{digest}.jsonl"
        with _stop_run_on_error():
            self._file = self._path or settings().trajectories_path / _UNSAFE.sub("_", episode.id)[:100] / name
            if self._file.exists() and Trajectory.read(self._file).head != head:
                raise ConfigError(f"writing {self._file}: it is the trajectory of another run; name another file")
        self._trajectory = Trajectory(head, [])
        self._parameters = {**parameters, "tools": self._toolbox.definitions}
        self._scope = f"{terms.tape_digest[:16]}/{self.name}/{run['seed'][:16]}"
        self._calls = _ModelCalls(self.models or WorldModels(f"replay-{digest}", self._budget))

    def act(self, ctx: AgentContext) -> None:
        """Execute one step. Raises `RunStopped` if the model is unavailable."""
        try:
            super().act(ctx)
        except BaseException:
            self._calls.close()
            raise

    def end(self, ctx: AgentContext) -> None:
        """Write the trajectory, and log the number of steps and failures."""
        self._calls.close()
        with _stop_run_on_error():
            self._trajectory.write(self._file)
        steps = sum(round.ended is not None for round in self._trajectory.rounds)
        failures = Counter(round.outcome for round in self._trajectory.rounds if round.ended == "failed")
        log.info("%s: %d steps with %d requests in %s", self.name, steps, len(self._trajectory.rounds), self._file)
        if failures:
            why = ", ".join(f"{kind} {count}" for kind, count in sorted(failures.items()))
            log.warning("%s: %d of %d steps have no decision (%s)", self.name, failures.total(), steps, why)

    def _answer(self, step: int, number: int, messages: Messages, request: str) -> Round:
        terms = {"purpose": PURPOSE, "scope": f"{self._scope}/{step}/{number}", "sample": self._sample, "parameters": self._parameters}
        try:
            return _to_round(self._calls.request_answer(self.model, messages, terms), number)
        except BellwetherError as error:
            raise RunStopped(f"{error} (step {step}; earlier answers are in the journal: repeat the run to continue)") from error

    def _record(self, finished: Round) -> None:
        self._trajectory.rounds.append(finished)


class LLMReplay(_Conversing):
    """Agent that answers from the trajectory of an earlier run. trajectory: its file.

    Raises `Mismatch` at the first request that differs from the recorded one, in any decision.
    """

    name = "llm-replay"

    def __init__(self, *, trajectory: Path | str) -> None:
        self._file = place(trajectory)
        stored = Trajectory.read(self._file)
        self._rounds, self._stored = stored.head.rounds, iter(stored.rounds)
        self._line = 1

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Build the prompt and the tools of the episode."""
        self._prepare(ctx, episode)

    def end(self, ctx: AgentContext) -> None:
        """Raise `Mismatch` if the run ended earlier than the trajectory."""
        self._next("")

    def _answer(self, step: int, number: int, messages: Messages, request: str) -> Round:
        stored = self._next(request)
        assert stored is not None
        return stored

    def _next(self, request: str) -> Round | None:
        """Return the next stored round. request: digest of the request that it answers; empty after the last one."""
        self._line += 1
        stored = next(self._stored, None)
        expected = "" if stored is None else stored.request
        if request != expected:
            raise Mismatch(
                f"replaying {self._file}, line {self._line}: expected request {expected or '(end of the run)'}, "
                f"got {request or '(end of the run)'}; use the episode, rules and settings of the recorded run"
            )
        return stored


# --- answers -----------------------------------------------------------------------------------------------------------


def _to_round(answer: Answer | NoAnswer, number: int) -> Round:
    """Return the round of an answer, or of the reason of a missing one. Lone surrogates, which UTF-8 cannot encode, are replaced. number:
    number of the round in the step.
    """
    from bellwether.journal.values import Outcome
    from bellwether.models.client import NoAnswer

    usage = answer.usage if isinstance(answer, NoAnswer) else answer.spent
    values: dict[str, Any] = {
        "key": answer.key,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost_microdollars": usage.cost,
    }
    if isinstance(answer, NoAnswer):
        values |= {"outcome": answer.outcome.value, "reason": answer.reason}
    elif answer.cut:
        reason = f"the answer was cut (finish reason: {answer.reply.finish_reason}); nothing of it is carried out"
        values |= {"outcome": Outcome.TRUNCATION.value, "reason": reason}
    else:
        message, called = build_turn(answer, number, MOST_CALLS + 1)
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in called]
        values |= {"outcome": "ok", "message": message, "reasoning": answer.reply.reasoning, "calls": calls}
    return Round.model_validate_json(json.dumps(values, ensure_ascii=False).encode(errors="replace"))


class _ModelCalls:
    """Blocking access to a model client, whose event loop runs in a daemon thread from the first request until `close`.

    Ctrl-C during a request prevents further requests; the paid answer is awaited and stored. A second Ctrl-C cancels the request.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._thread: threading.Thread | None = None

    def request_answer(self, model: Model, messages: Messages, terms: Mapping[str, Any]) -> Answer | NoAnswer:
        """Return the model's answer, or the reason of a missing one. terms: further arguments of `ModelClient.ask`, whose errors are raised."""
        if self._thread is None:
            opened: Future[ModelClient] = Future()
            self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(opened)), name="llm-agent", daemon=True)
            self._thread.start()
            self._client = opened.result()
        request = asyncio.run_coroutine_threadsafe(self._client.ask(model, messages, **terms), self._loop)
        try:
            return request.result()
        except BaseException:
            if not request.done():
                self._loop.call_soon_threadsafe(self._client.interrupt)
                try:
                    with suppress(Exception):
                        request.result()
                except BaseException:
                    request.cancel()
                    raise
            raise

    def close(self) -> None:
        """Close the client and end its thread, if it is open."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join()

    async def _serve(self, opened: Future[ModelClient]) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._models.client() as client:
                opened.set_result(client)
                await self._over.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)


# --- parameters --------------------------------------------------------------------------------------------------------


def _temperature(model: Model, chosen: float | None) -> float | None:
    """Return the temperature of requests: `chosen`, or else the default for the model; None if requests must not state a temperature."""
    if chosen is not None:
        return chosen
    reasons = model.temperature == 1.0 or model.reasoning_effort not in (None, "none")
    return model.temperature if reasons else TEMPERATURE


def _check(name: str, value: Any, kind: Any) -> Any:
    """Return a parameter as `kind`. Raises `ConfigError` for an invalid value."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise ConfigError(f"making the agent llm: {name} is {value!r:.60}; {error.errors()[0]['msg']}") from None


@contextmanager
def _stop_run_on_error() -> Iterator[None]:
    """Convert errors of files and settings to `RunStopped`: they end the run without a result and are no failures of the agent."""
    try:
        yield
    except (BellwetherError, OSError) as error:
        raise RunStopped(str(error)) from error
