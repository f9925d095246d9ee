"""Language model agent, and an agent that replays its trajectory (the stored steps of a run) without a model.

Each step is a new conversation: the system prompt of the episode, the state as text, and rounds of tool calls.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bellwether.errors import BellwetherError, ConfigError
from bellwether.extras import require_platform
from bellwether.models.registry import model as registered
from bellwether.places import place
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.gateway import Conditions
from bellwether.replay.agents.limits import RunStopped
from bellwether.replay.agents.llm.conversation import Messages, RoundSource, converse, to_round
from bellwether.replay.agents.llm.model_bridge import ModelBridge, WorldModels
from bellwether.replay.agents.llm.prompt import VERSION, state, system_prompt
from bellwether.replay.agents.llm.steps import Round, Step
from bellwether.replay.agents.llm.tools import Toolbox
from bellwether.replay.agents.llm.trajectory import Mismatch, Trajectory, TrajectoryHead, require_repeated, require_same
from bellwether.replay.engine.codes import ENGINE_VERSION
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
    """The model of a run is unavailable. Finished steps are stored; repeating the run continues after them.

    kind: reason stated by the model client, such as budget, out_of_credit or authentication; empty without one.
    """

    kind: str = ""

    @classmethod
    def by(cls, cause: Exception, folder: Path, steps: int) -> Self:
        """Build the error from `cause`, the error of the model client. folder: folder of the trajectory. steps: number of stored steps."""
        error = cls(f"{cause} ({steps} steps are stored in {folder}; repeat the same run to continue)")
        error.kind = str(getattr(cause, "kind", ""))
        return error


class _TrajectoryAgent(Agent):
    """Shared part of `LLMAgent` and `LLMReplay`: builds the toolbox and prompt of an episode, and executes steps."""

    timed = False
    _rounds: int
    _trajectory: Trajectory

    def _prepare(self, ctx: AgentContext, episode: EpisodeInfo) -> dict[str, Any]:
        """Build the toolbox and the prompt of an episode. Returns the properties of the episode and prompt that a stored trajectory must share."""
        terms: Conditions = ctx._simulator.conditions()
        self._toolbox = Toolbox(episode)
        self._system = system_prompt(episode, terms, self._rounds)
        self._steps = 0
        return _run_identity(episode, terms) | {
            "rounds": self._rounds,
            "prompt": f"{VERSION}/{_digest(self._system)}",
            "tools": _digest(self._toolbox.definitions),
        }

    def _repeat(self, ctx: AgentContext, stored: Step) -> None:
        """Execute the tool calls of a stored step again. Raises `Mismatch` if the repeated step differs from the stored one."""
        folder = self._trajectory.folder

        def stored_round(messages: Messages, number: int) -> Round:
            if number >= len(stored.rounds):
                raise Mismatch(
                    f"replaying {folder}: step {stored.number} continues after its {len(stored.rounds)} stored rounds; "
                    "the episode, the rules or the simulator have changed; run it in another folder"
                )
            return stored.rounds[number]

        require_repeated(stored, self._converse(ctx, stored_round), folder)

    def _converse(self, ctx: AgentContext, next_round: RoundSource) -> Step:
        self._steps += 1
        return converse(ctx, next_round, self._toolbox, self._system, state(ctx), rounds=self._rounds)

    def _require_all_repeated(self) -> None:
        """Raise `Mismatch` if the run ended before all stored steps were repeated."""
        if self._steps < self._trajectory.stored:
            raise Mismatch(
                f"replaying {self._trajectory.folder}: it has {self._trajectory.stored} steps, but this run ended after {self._steps}; "
                "the episode or the simulator has changed; run it in another folder"
            )


class LLMAgent(_TrajectoryAgent):
    """Agent whose decisions are tool calls of a language model.

    Finished steps are stored. Repeating the run executes them again and queries the model only for the remaining steps.

    Args:
        model: Name of the model in the registry.
        rounds: Maximum number of model answers per step.
        temperature: Sampling temperature, 0 to 2. Default: 0, or the temperature of the registry entry for models that accept only one.
        sample: Number that distinguishes this run's answers from those of another run with the same settings.
        budget: Maximum cost of the run, dollars, including earlier parts of a resumed run. Default: that of the settings.
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
        self._rounds = _check_integer(rounds, "rounds", 1, _MOST_ROUNDS)
        self._sample = _check_integer(sample, "sample", 0, 2**31 - 1)
        self._temperature = _temperature(self.model, temperature)
        self._budget = _budget(budget)
        self._folder = None if folder is None else place(folder)

    def recreate(self) -> Self:
        """Return a new agent with the same parameters, name and model client."""
        agent = super().recreate()
        agent.models = self.models
        return agent

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Open or create the trajectory, without a request to the model."""
        from bellwether.models.client import journal_model_name

        with _stop_run_on_error():
            identity = self._prepare(ctx, episode) | {
                "engine": ENGINE_VERSION,
                "agent": self.name,
                "model": journal_model_name(self.model),
                "parameters": self._request_parameters(),
                "sample": self._sample,
                "seed": f"{ctx.seed:064x}",
            }
            digest = _digest(identity)
            folder = (
                self._folder
                or settings().trajectories_path / _UNSAFE.sub("_", episode.id)[:100] / f"{_UNSAFE.sub('_', self.name)}-{digest}"
            )
            self._trajectory = Trajectory.begin(folder, TrajectoryHead(identity, self._system, self._toolbox.definitions))
            models = self.models or WorldModels(f"replay-{digest}", self._budget)
            parameters = {**self._request_parameters(), "tools": self._toolbox.definitions}
            self._bridge = ModelBridge(models, self.model, parameters, self._sample)
            self._scope = f"{identity['episode_digest'][:16]}/{self.name}/{identity['seed'][:16]}"

    def _request_parameters(self) -> dict[str, Any]:
        """Return the parameters of a request to the model, except the tools."""
        return {**self.model.request_parameters, **({} if self._temperature is None else {"temperature": self._temperature})}

    def act(self, ctx: AgentContext) -> None:
        """Execute one step. A stored step is repeated; for a new step the model is queried, and the step is stored."""
        try:
            stored = self._trajectory.step(ctx.step)
            if stored is not None:
                self._repeat(ctx, stored)
                return
            step = self._converse(ctx, partial(self._request_round, ctx.step))
            with _stop_run_on_error():
                self._trajectory.add(step)
        except BaseException:
            self._close()
            raise
        if step.ended == "failed":
            log.info("%s: step %d has no decision: %s", self.name, step.number, step.reason)

    def _request_round(self, step: int, messages: Messages, number: int) -> Round:
        """Request the model's answer in one round of a step. Raises `Suspended` if the model is unavailable. number: number of the round."""
        try:
            return to_round(self._bridge.request_answer(messages, f"{self._scope}/{step}/{number}"), number)
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
            self._close()
        totals = self._trajectory.finished or {}
        log.info("%s: %d steps in %s: %s", self.name, self._steps, self._trajectory.folder, json.dumps(totals))
        if totals.get("failures"):
            why = ", ".join(f"{kind} {count}" for kind, count in totals["failures"].items())
            log.warning("%s: %d of %d steps have no decision (%s)", self.name, totals["ended"]["failed"], self._steps, why)

    def _close(self) -> None:
        """Save the new steps, and close the model client."""
        try:
            with _stop_run_on_error():
                self._trajectory.save()
        finally:
            self._bridge.close()


class LLMReplay(_TrajectoryAgent):
    """Agent that repeats the tool calls of a finished trajectory and compares every result. trajectory: folder of the trajectory."""

    name = "llm-replay"

    def __init__(self, *, trajectory: Path | str) -> None:
        self._trajectory = Trajectory.open(place(trajectory))
        if self._trajectory.finished is None:
            raise ConfigError(
                f"replaying {trajectory}: its run has not ended ({self._trajectory.stored} steps so far); repeat the run to finish it, then replay it"
            )
        self._rounds = _check_integer(self._trajectory.head.identity["rounds"], "rounds", 1, _MOST_ROUNDS)

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Raise `Mismatch` unless the episode, rules, settings and prompt are those of the trajectory."""
        require_same(self._trajectory.head.identity, self._prepare(ctx, episode), self._trajectory.folder)

    def act(self, ctx: AgentContext) -> None:
        """Repeat one stored step. Raises `Mismatch` if the results differ from the stored results."""
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


# --- identity of a run -------------------------------------------------------------------------------------------------


def _run_identity(episode: EpisodeInfo, terms: Conditions) -> dict[str, Any]:
    """Return the properties that two runs with equal steps must share, by name: of the episode, the rules and the settings."""
    return {
        "episode": episode.id,
        "episode_digest": terms.tape_digest,
        "rules": terms.rules.name,
        "rules_digest": _digest(_rule_fields(terms.rules)),
        "fees_digest": _digest(terms.fees.tolist()),
        **({"units_digest": _digest(terms.units.tolist())} if len(terms.units) else {}),
        "calls_per_step": terms.calls_per_step,
        **{f"settings.{name}": value for name, value in asdict(terms.settings).items()},
    }


def _rule_fields(rules: RuleSet) -> dict[str, str]:
    """Return the fields of a rule set as text, without title and sources."""
    values = {field.name: getattr(rules, field.name) for field in fields(rules) if field.name not in ("title", "sources")}
    return {name: str(dict(value) if isinstance(value, Mapping) else value) for name, value in values.items()}


def _digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _temperature(model: Model, chosen: float | None) -> float | None:
    """Return the temperature of requests: `chosen`, or else the default for the model; None if requests must not state a temperature."""
    if chosen is not None:
        if isinstance(chosen, bool) or not isinstance(chosen, int | float) or not 0 <= chosen <= 2:
            raise ConfigError(f"making the agent llm: temperature is {chosen!r}; give a number from 0 to 2")
        return float(chosen)
    reasons = model.temperature == 1.0 or model.reasoning_effort not in (None, "none")
    return model.temperature if reasons else TEMPERATURE


def _check_integer(value: Any, name: str, minimum: int, maximum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise ConfigError(f"making the agent llm: {name} is {value!r}; give an integer from {minimum} to {maximum}")
    return value


def _budget(budget: Decimal | float | str | None) -> Decimal:
    """Return the budget of a run in dollars; without one, the budget in the settings. Raises `ConfigError` for an invalid value."""
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
    """Within the block, convert errors of files and settings to `RunStopped`: they end the run without a result and are no failures of the
    agent.
    """
    try:
        yield
    except RunStopped:
        raise
    except (BellwetherError, OSError) as error:
        raise RunStopped(str(error)) from error
