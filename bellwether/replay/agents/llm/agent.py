"""Language model agent, and replay of its trajectory without a model.

Each step is a new conversation: the system prompt of the episode, the state as text, and at most three rounds of tool calls.
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

#: Settings of PredictionMarketBench (Table 2).
ROUNDS, TEMPERATURE = 3, 0.0
_MOST_ROUNDS = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Suspended(RunStopped):
    """Run whose model is unavailable. Finished steps are stored, and repeating the run continues after them.

    kind: reason in the client's terms, such as budget, out_of_credit or authentication; empty without one.
    """

    kind: str = ""

    @classmethod
    def by(cls, cause: Exception, folder: Path, steps: int) -> Self:
        """Create the error from its cause. It contains only strings, so that it can be passed between processes."""
        error = cls(f"{cause} ({steps} steps are stored in {folder}; repeat the same run to continue)")
        error.kind = str(getattr(cause, "kind", ""))
        return error


class _TrajectoryAgent(Agent):
    """Base of a model agent and of a trajectory replay: toolbox and prompt of the episode, and repeatable steps."""

    api = 3
    timed = False
    _rounds: int
    _trajectory: Trajectory

    def _prepare(self, ctx: AgentContext, episode: EpisodeInfo) -> dict[str, Any]:
        """Create the toolbox and the prompt; return the part of the run's identity that depends on the episode."""
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
        """Execute a stored step again. Raises `Mismatch` if its results differ."""
        require_repeated(stored, self._converse(ctx, _RecordedAnswers(stored, self._trajectory.folder)), self._trajectory.folder)

    def _converse(self, ctx: AgentContext, voice: AnswerSource) -> Step:
        self._steps += 1
        return converse(ctx, voice, self._toolbox, self._system, state(ctx), rounds=self._rounds)

    def _require_all_repeated(self) -> None:
        if self._steps < self._trajectory.stored:
            raise Mismatch(
                f"replaying {self._trajectory.folder}: it has {self._trajectory.stored} steps, but this run ended after {self._steps}; "
                "the episode or the simulator has changed; run it in another folder"
            )


class LLMAgent(_TrajectoryAgent):
    """Model of the registry that trades by tool calls.

    Finished steps are stored. Repeating the run executes them again and queries the model only for the remaining steps.

    Args:
        model: Name of the model in the registry.
        rounds: Maximum number of answers per step.
        temperature: Sampling temperature, 0 to 2. Default: 0, or the temperature of the registry entry for models that accept only one.
        sample: Number that distinguishes this run's answers from those of another run with the same settings.
        budget: Maximum cost of the run, dollars, including resumed parts. Default: that of the settings.
        folder: Folder of the trajectory. Default: a folder per run below the world's home.

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
        folder: Path | str | None = None,
    ) -> None:
        require_platform("a language model agent")
        self.model: Model = registered(model)
        self._rounds = _natural(rounds, "rounds", 1, _MOST_ROUNDS)
        self._sample = _natural(sample, "sample", 0, 2**31 - 1)
        self._temperature = _temperature(self.model, temperature)
        self._budget = _dollars(budget)
        self._folder = None if folder is None else place(folder)

    def anew(self) -> Self:
        """Return a new agent with the same parameters and model source."""
        agent = super().anew()
        agent.models = self.models
        return agent

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Open the trajectory. No request is sent."""
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
        """Return the request parameters that affect the answers, except the tools."""
        own = {} if self._temperature is None else {"temperature": self._temperature}
        return {**self.model.request_parameters, **own}

    def act(self, ctx: AgentContext) -> None:
        """Execute one step. A stored step is repeated; otherwise the model is queried and the step is stored."""
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
        """Return the model's answer in a round of a step. Raises `Suspended` if the model is unavailable."""
        try:
            return to_round(self._asking.ask(messages, f"{self._scope}/{step}/{number}"), number)
        except BellwetherError as error:
            raise Suspended.by(error, self._trajectory.folder, step) from error

    def end(self, ctx: AgentContext) -> None:
        """Close the trajectory and log its totals."""
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
        """Save the stored steps and close the model client."""
        try:
            with _stop_run_on_error():
                self._trajectory.save()
        finally:
            self._asking.close()


class LLMReplay(_TrajectoryAgent):
    """Replay of a finished trajectory without a model: repeats its calls and compares every result. trajectory: its folder."""

    name = "llm-replay"

    def __init__(self, *, trajectory: Path | str) -> None:
        self._trajectory = Trajectory.open(place(trajectory))
        if self._trajectory.finished is None:
            raise ConfigError(
                f"replaying {trajectory}: its run has not ended ({self._trajectory.stored} steps so far); repeat the run to finish it, then replay it"
            )
        self._rounds = _natural(self._trajectory.head.identity["rounds"], "rounds", 1, _MOST_ROUNDS)

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Raise `Mismatch` unless the episode, rules, settings and prompt are those of the trajectory."""
        require_same(self._trajectory.head.identity, self._prepare(ctx, episode), self._trajectory.folder)

    def act(self, ctx: AgentContext) -> None:
        """Repeat one step. Raises `Mismatch` if its results differ."""
        with _stop_run_on_error():
            stored = self._trajectory.step(ctx.step)
        if stored is None:
            raise Mismatch(
                f"replaying {self._trajectory.folder}: it ends after {self._trajectory.stored} steps, but this run continues; "
                "the episode or the simulator has changed; run it in another folder"
            )
        self._repeat(ctx, stored)

    def end(self, ctx: AgentContext) -> None:
        """Raise `Mismatch` if the run ended earlier than the trajectory."""
        self._require_all_repeated()


@dataclass(frozen=True, slots=True)
class _ModelAnswers:
    """Answers queried from the model."""

    agent: LLMAgent
    step: int

    def hear(self, messages: Messages, number: int) -> Round:
        return self.agent.ask(messages, self.step, number)


@dataclass(frozen=True, slots=True)
class _RecordedAnswers:
    """Stored answers of the model."""

    step: Step
    folder: Path

    def hear(self, messages: Messages, number: int) -> Round:
        if number >= len(self.step.rounds):
            raise Mismatch(
                f"replaying {self.folder}: step {self.step.number} continues after its {len(self.step.rounds)} stored rounds; "
                "the episode, the rules or the simulator have changed; run it in another folder"
            )
        return self.step.rounds[number]


# --- identity of a run -------------------------------------------------------------------------------------------------


def _run_identity(episode: EpisodeInfo, terms: Conditions) -> dict[str, Any]:
    """Return the properties of the replay that affect its steps, by name."""
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
    """Return the fields of a rule set as text, without title and sources."""
    values = {field.name: getattr(rules, field.name) for field in fields(rules) if field.name not in ("title", "sources")}
    return {name: str(dict(value) if isinstance(value, Mapping) else value) for name, value in values.items()}


def _digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _trajectory_folder() -> Path:
    return settings().trajectories_path


def _temperature(model: Model, given: float | None) -> float | None:
    """Return the temperature to send: as given, or the default of the model."""
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 2:
            raise ConfigError(f"making the agent llm: temperature is {given!r}; give a number from 0 to 2")
        return float(given)
    reasons = model.temperature == 1.0 or model.reasoning_effort not in (None, "none")
    return model.temperature if reasons else TEMPERATURE


def _natural(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"making the agent llm: {name} is {value!r}; give an integer from {least} to {most}")
    return value


def _dollars(budget: Decimal | float | str | None) -> Decimal:
    if budget is None:
        return settings().budget
    try:
        amount = Decimal(str(budget))
    except InvalidOperation:
        amount = Decimal("NaN")
    if isinstance(budget, bool) or not amount.is_finite() or amount < 0:
        raise ConfigError(f"making the agent llm: budget is {budget!r}; give a number of dollars, 0 or more")
    return amount


@contextmanager
def _stop_run_on_error() -> Iterator[None]:
    """Convert errors of files and settings to `RunStopped`: they end the run without a result and are not failures of the agent."""
    try:
        yield
    except RunStopped:
        raise
    except (BellwetherError, OSError) as error:
        raise RunStopped(str(error)) from error
