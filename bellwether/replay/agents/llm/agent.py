"""A language model as a trading agent, and the same trajectory once more without a model.

Each step is a fresh conversation: the system prompt of the episode, the state in words, and at most three rounds of tool calls.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bellwether.errors import BellwetherError, ConfigError
from bellwether.extras import require_platform
from bellwether.models.registry import model as registered
from bellwether.places import place
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.gateway import Conditions
from bellwether.replay.agents.limits import RunStopped
from bellwether.replay.agents.llm.conversation import AnswerSource, Messages, converse, to_round
from bellwether.replay.agents.llm.model_bridge import ModelBridge, WorldModels
from bellwether.replay.agents.llm.prompt import VERSION, state, system_prompt
from bellwether.replay.agents.llm.steps import Round, Step
from bellwether.replay.agents.llm.tools import Toolbox
from bellwether.replay.agents.llm.trajectory import Mismatch, Trajectory, TrajectoryHead, require_repeated, require_same
from bellwether.replay.engine.codes import ENGINE_VERSION
from bellwether.replay.engine.settings import settings_values
from bellwether.replay.units import MILL
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.forecasting.forecaster import Models
    from bellwether.models.model import Model
    from bellwether.replay.agents.context import AgentContext
    from bellwether.replay.agents.records import EpisodeInfo
    from bellwether.replay.rules import RuleSet

log = logging.getLogger(__name__)

#: The seed's settings (Table 2).
ROUNDS, TEMPERATURE = 3, 0.0
_MOST_ROUNDS = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Suspended(RunStopped):
    """The model is unavailable; every finished step is stored, and the same run continues there.

    kind: why, in the client's word: budget, out_of_credit, authentication, …; "" where the client gives none.
    """

    kind: str = ""

    @classmethod
    def by(cls, cause: Exception, folder: Path, steps: int) -> Self:
        """For this reason, after so many steps. Made of texts alone, so that it can be passed between processes."""
        error = cls(f"{cause} ({steps} steps are stored in {folder}; run the same again to go on)")
        error.kind = str(getattr(cause, "kind", ""))
        return error


class _TrajectoryAgent(Agent):
    """Base of a model's agent and of a stored trajectory: toolbox and prompt of the episode, and repeatable steps."""

    api = 3
    timed = False
    _rounds: int
    _trajectory: Trajectory

    def _prepare(self, ctx: AgentContext, episode: EpisodeInfo) -> dict[str, Any]:
        """Set up the episode; the part of the run's identity that it decides."""
        terms: Conditions = ctx._door.conditions()
        self._toolbox = Toolbox(episode, 1 if any((prices % MILL).any() for prices in terms.grids) else MILL)
        self._system = system_prompt(episode, terms, self._rounds)
        self._steps = 0
        return _run_identity(episode, terms) | {
            "rounds": self._rounds,
            "prompt": f"{VERSION}/{_digest(self._system)}",
            "tools": _digest(self._toolbox.definitions),
        }

    def _repeat(self, ctx: AgentContext, stored: Step) -> None:
        """Carry out a stored step. Raises `Mismatch` when it comes out otherwise."""
        require_repeated(stored, self._converse(ctx, _RecordedAnswers(stored, self._trajectory.folder)), self._trajectory.folder)

    def _converse(self, ctx: AgentContext, voice: AnswerSource) -> Step:
        self._steps += 1
        return converse(ctx, voice, self._toolbox, self._system, state(ctx), rounds=self._rounds)

    def _require_all_repeated(self) -> None:
        if self._steps < self._trajectory.stored:
            raise Mismatch(
                f"replaying {self._trajectory.folder}: it has {self._trajectory.stored} steps, and this run ended after {self._steps}; "
                "the episode or the simulator have changed"
            )


class LLMAgent(_TrajectoryAgent):
    """A model of the registry that trades by calling tools. Finished steps are stored; the same run again repeats them and asks for the others.

    model: its name in the registry. rounds: answers per step. temperature: 0 when left out, or the entry's where the model has only one (1, or a
    model that reasons). sample: tells this run's answers from those of another one of the same settings. budget: most dollars that the run may
    spend, all its parts together; the settings' when left out. folder: of the trajectory; one per run below the world's home when left out.

    models: source of the client; a client of this process by default.
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
        folder: Path | str | None = None,
    ) -> None:
        require_platform("an agent that asks a language model")
        self.model: Model = registered(model)
        self._rounds = _natural(rounds, "rounds", 1, _MOST_ROUNDS)
        self._sample = _natural(sample, "sample", 0, 2**31 - 1)
        self._temperature = _temperature(self.model, temperature)
        self._budget = _dollars(budget)
        self._folder = None if folder is None else place(folder)

    def anew(self) -> Self:
        """See `Agent.anew`; it shares the models."""
        agent = super().anew()
        agent.models = self.models
        return agent

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Open the trajectory; no request is sent yet."""
        from bellwether.models.client import journal_model_name

        with _stop_run_on_error():
            identity = self._prepare(ctx, episode) | {
                "engine": ENGINE_VERSION,
                "agent": self.name,
                "model": journal_model_name(self.model),
                "parameters": self._sent(),
                "sample": self._sample,
                "seed": f"{ctx.seed:064x}",
            }
            digest = _digest(identity)
            folder = self._folder or _trajectory_folder() / _UNSAFE.sub("_", episode.id)[:100] / f"{_UNSAFE.sub('_', self.name)}-{digest}"
            self._trajectory = Trajectory.begin(folder, TrajectoryHead(identity, self._system, self._toolbox.definitions))
            models = self.models or WorldModels(f"replay-{digest}", self._budget)
            parameters = {**self._sent(), "tools": self._toolbox.definitions}
            self._asking = ModelBridge(models, self.model, parameters, self._sample)
            self._scope = f"{identity['episode_digest'][:16]}/{self.name}/{identity['seed'][:16]}"

    def _sent(self) -> dict[str, Any]:
        """Parameters that decide the answers, in addition to the tools."""
        own = {} if self._temperature is None else {"temperature": self._temperature}
        return {**self.model.request_parameters, **own}

    def act(self, ctx: AgentContext) -> None:
        """One step: repeated where it is stored, otherwise asked for and stored."""
        try:
            stored = self._trajectory.step(ctx.step)
            if stored is not None:
                self._repeat(ctx, stored)
                return
            step = self._converse(ctx, _ModelAnswers(self, ctx.step))
            with _stop_run_on_error():
                self._trajectory.add(step)
        except BaseException:
            self._leave()
            raise
        if step.ended == "failed":
            log.info("%s: step %d has no decision: %s", self.name, step.number, step.reason)

    def ask(self, messages: Messages, step: int, number: int) -> Round:
        """The model's answer in a round of a step. Raises `Suspended`."""
        try:
            return to_round(self._asking.ask(messages, f"{self._scope}/{step}/{number}"), number)
        except BellwetherError as error:
            raise Suspended.by(error, self._trajectory.folder, step) from error

    def end(self, ctx: AgentContext) -> None:
        """Close the trajectory, with its totals."""
        try:
            self._require_all_repeated()
            with _stop_run_on_error():
                if self._trajectory.finished is None:
                    self._trajectory.finish()
        finally:
            self._leave()
        totals = self._trajectory.finished or {}
        log.info("%s: %d steps in %s: %s", self.name, self._steps, self._trajectory.folder, json.dumps(totals))
        if totals.get("failures"):
            why = ", ".join(f"{kind} {count}" for kind, count in totals["failures"].items())
            log.warning("%s: %d of %d steps have no decision (%s)", self.name, totals["ended"]["failed"], self._steps, why)

    def _leave(self) -> None:
        """Keep the stored steps, and release the model."""
        try:
            with _stop_run_on_error():
                self._trajectory.save()
        finally:
            self._asking.close()


class LLMReplay(_TrajectoryAgent):
    """A finished trajectory once more, without a model: the same calls, and every result compared. trajectory: its folder."""

    name = "llm-replay"

    def __init__(self, *, trajectory: Path | str) -> None:
        self._trajectory = Trajectory.open(place(trajectory))
        if self._trajectory.finished is None:
            raise ConfigError(
                f"replaying {trajectory}: its run has not ended ({self._trajectory.stored} steps so far); run it again to go on, then replay it"
            )
        self._rounds = _natural(self._trajectory.head.identity["rounds"], "rounds", 1, _MOST_ROUNDS)

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Refuse another episode, other rules or settings, or another prompt."""
        require_same(self._trajectory.head.identity, self._prepare(ctx, episode), self._trajectory.folder)

    def act(self, ctx: AgentContext) -> None:
        """Repeat one step."""
        with _stop_run_on_error():
            stored = self._trajectory.step(ctx.step)
        if stored is None:
            raise Mismatch(
                f"replaying {self._trajectory.folder}: it ends after {self._trajectory.stored} steps, and this run goes on; "
                "the episode or the simulator have changed"
            )
        self._repeat(ctx, stored)

    def end(self, ctx: AgentContext) -> None:
        """Refuse a run that ended earlier than the trajectory."""
        self._require_all_repeated()


@dataclass(frozen=True, slots=True)
class _ModelAnswers:
    """The model."""

    agent: LLMAgent
    step: int

    def hear(self, messages: Messages, number: int) -> Round:
        return self.agent.ask(messages, self.step, number)


@dataclass(frozen=True, slots=True)
class _RecordedAnswers:
    """Previous messages of the model."""

    step: Step
    folder: Path

    def hear(self, messages: Messages, number: int) -> Round:
        if number >= len(self.step.rounds):
            raise Mismatch(
                f"replaying {self.folder}: step {self.step.number} goes on after its {len(self.step.rounds)} stored rounds; "
                "the episode, the rules or the simulator have changed"
            )
        return self.step.rounds[number]


# --- what a run is -----------------------------------------------------------------------------------------------------


def _run_identity(episode: EpisodeInfo, terms: Conditions) -> dict[str, Any]:
    """Everything about the replay that decides a step, by name."""
    return {
        "episode": episode.id,
        "episode_digest": terms.tape_digest,
        "rules": terms.rules.name,
        "rules_digest": _digest(_rule_fields(terms.rules)),
        "fees_digest": _digest(terms.fees.tolist()),
        **({"units_digest": _digest(terms.units.tolist())} if len(terms.units) else {}),
        "calls_per_step": terms.calls_per_step,
        **{f"settings.{name}": value for name, value in settings_values(terms.settings).items()},
    }


def _rule_fields(rules: RuleSet) -> dict[str, str]:
    """Fields of a rule set as text, without its descriptions."""
    values = {field.name: getattr(rules, field.name) for field in fields(rules) if field.name not in ("title", "sources")}
    return {name: str(dict(value) if isinstance(value, Mapping) else value) for name, value in values.items()}


def _digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _trajectory_folder() -> Path:
    return settings().trajectories_path


def _temperature(model: Model, given: float | None) -> float | None:
    """What is sent: what was asked for; else 0, but nothing else than the entry says where the model takes no other."""
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 2:
            raise ConfigError(f"making the agent llm: temperature is {given!r}; give a number from 0 to 2")
        return float(given)
    reasons = model.temperature == 1.0 or model.reasoning_effort not in (None, "none")
    return model.temperature if reasons else TEMPERATURE


def _natural(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"making the agent llm: {name} is {value!r}; give a whole number from {least} to {most}")
    return value


def _dollars(budget: Decimal | float | str | None) -> Decimal:
    if budget is None:
        return settings().budget
    try:
        amount = Decimal(str(budget))
    except InvalidOperation:
        amount = Decimal("NaN")
    if isinstance(budget, bool) or not amount.is_finite() or amount < 0:
        raise ConfigError(f"making the agent llm: budget is {budget!r}; give dollars from 0")
    return amount


@contextmanager
def _stop_run_on_error() -> Iterator[None]:
    """What is wrong with files or settings is no failure of the agent: it ends the run without a result."""
    try:
        yield
    except RunStopped:
        raise
    except (BellwetherError, OSError) as error:
        raise RunStopped(str(error)) from error
