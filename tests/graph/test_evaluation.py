"""Evaluations of language models: budgets, interruptions and models that cannot be called, by the step of the calls, the graph and the command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import polars as pl
import pytest
from click.testing import CliRunner, Result

from assets.benchmark import evaluation, runs
from assets.benchmark.evaluation import _send_calls
from assets.benchmark.runs import forecast_and_publish
from bellwether import forecasting
from bellwether.console import Silent
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting import forecaster
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal.journal import Journal
from bellwether.lake import Lake
from bellwether.lake.warehouse import query
from bellwether.models import client
from bellwether.models.client import Limits
from bellwether.settings import settings
from bellwether.tables import table
from cli.main import main
from orchestration.definitions import build_defs
from orchestration.runner import RunFailed, Runner
from tests.demo_home import RELEASE, World
from tests.graph.worlds import execute, home_with_questions, rows
from tests.unit.models.failing_provider import KEY, VARIABLE, Provider, provider, write_models
from tests.unit.publish.rows import questions

#: Six questions, and four samples of each for a model registered so.
QUESTIONS, SAMPLES = 6, 4
#: Micro-dollars of a call with 300 tokens of input and 50 of output, at a micro-dollar per token; of the dear model 1000 per token of input.
COST, DEAR_COST = 350, 300_050
FEW = f"{RELEASE}@{QUESTIONS}"
MODELS: dict[str, dict[str, Any]] = {
    "good": {"model": "openai/calibrated"},
    "many": {"model": "openai/hostile", "samples": SAMPLES, "combine": "median"},
    "expired": {"model": "openai/expired", "key_variable": "TEST_EXPIRED_KEY"},
    "broke": {"model": "openai/broke", "key_variable": "TEST_BROKE_KEY"},
    "unknown": {"model": "openai/nobody-knows-it"},
    "keyless": {"model": "openai/calibrated", "key_variable": "TEST_MISSING_KEY"},
    "dear": {"model": "openai/hostile", "input_price": 1000},
    "echo": {"model": "openai/echo"},
    "parrot": {"model": "openai/parrot"},
}
#: Models that no call can reach, or that stop within a small budget.
STOPPED = {"expired", "broke", "unknown", "keyless", "dear"}
OTHER_KEYS = {"TEST_EXPIRED_KEY": "sandbox-expired", "TEST_BROKE_KEY": "sandbox-broke"}


@dataclass(frozen=True)
class Calls:
    """Calls of models to a provider that counts them, recorded in the journal of a home."""

    provider: Provider
    work: Any
    questions: pl.DataFrame

    def send(self, *names: str, run: str = "run", dollars: str = "100", per_model: str | None = None) -> dict[str, BellwetherError | None]:
        models: Sequence[Any] = [forecaster(name) for name in names]
        limits = Limits(dollars=Decimal(dollars), dollars_per_model=None if per_model is None else Decimal(per_model))
        return _send_calls(self.work, models, self.questions, run, limits)

    @property
    def journal(self) -> Journal:
        return self.work.models.journal.journal  # type: ignore[no-any-return]

    def answers(self, model: str) -> int:
        counts = self.journal.counts().filter(pl.col("model").str.ends_with(f"@{model}"), state="answered")
        return int(counts["calls"].sum())

    def spent(self, model: str) -> int:
        """Return the cost of a model's attempts in micro-dollars."""
        return int(self.journal.usage("model").filter(pl.col("model").str.ends_with(f"@{model}"))["spent"].sum())


@contextmanager
def opened(home: Path, patch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """Select a home with registered models and their provider."""
    patch.setenv("BELLWETHER_HOME", str(home))
    patch.setenv("BELLWETHER_REGISTRY", str(home / "registry"))
    for name, value in {VARIABLE: KEY, **OTHER_KEYS}.items():
        patch.setenv(name, value)
    patch.delenv("TEST_MISSING_KEY", raising=False)
    patch.setattr(client, "_CHECK_AGAIN", (0.01, 0.05))
    settings.cache_clear()
    with provider() as (served, url):
        write_models(home / "registry", url, MODELS)
        models = (build_defs(config=settings()).resources or {})["models"]
        yield Calls(served, SimpleNamespace(models=models, progress=Silent()), questions(QUESTIONS))


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    with opened(tmp_path / "calls", monkeypatch) as found:
        yield found


class Interrupting(Silent):
    """Progress that interrupts its process once a number of answers is stored."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        def advance(parts: int) -> None:
            self.left -= parts
            if self.left <= 0:
                os.kill(os.getpid(), signal.SIGINT)
                self.left = total + 1

        yield advance


def test_each_call_is_made_and_paid_once_also_after_an_interrupt(calls: Calls) -> None:
    expected = QUESTIONS * SAMPLES
    calls.work.progress = Interrupting(5)
    with pytest.raises(KeyboardInterrupt):
        calls.send("many")
    assert 5 <= calls.answers("many") == calls.provider.calls("hostile") < expected, "requests in progress are finished and stored"
    assert calls.spent("many") == calls.answers("many") * COST
    calls.work.progress = Silent()
    for _ in range(2):
        assert calls.send("many") == {"many": None}
        assert calls.answers("many") == calls.provider.calls("hostile") == expected
        assert calls.spent("many") == expected * COST
    assert calls.provider.most("hostile") == SAMPLES


def test_models_that_stop_keep_what_they_paid_for_and_stop_no_other(calls: Calls) -> None:
    ends = calls.send(*(name for name in MODELS if name != "many"), per_model="1.5")
    assert {name for name, error in ends.items() if error} == STOPPED
    assert calls.answers("good") == QUESTIONS
    assert 0 < calls.answers("dear") < QUESTIONS
    assert calls.spent("dear") == calls.answers("dear") * DEAR_COST <= 1_500_000
    assert {calls.spent(name) for name in STOPPED - {"dear"}} == {0}
    for name, frame in calls.journal.export().items():
        assert KEY not in str(frame.rows()), name
        stored = (value for values in frame.select(pl.col(pl.Binary)).to_dict(as_series=False).values() for value in values if value)
        assert KEY.encode() not in b"".join(stored), name
    assert not [name for name, error in ends.items() if KEY in str(error)]


def test_a_forecaster_that_fails_stops_neither_others_nor_the_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def release(work: Runner, release: str, forecasters: list[str]) -> dict[str, RunFailed | None]:
        done.append(release)
        return {name: RunFailed(f"{name} on {release}: no credit") if name == "broke" else None for name in forecasters}

    monkeypatch.setattr(runs, "evaluate_release", release)
    monkeypatch.setattr(runs, "publish", lambda work: done.append("published"))
    with pytest.raises(RunFailed, match=r"broke on one: no credit\. Also failed: broke on two\."):
        forecast_and_publish(None, ("one", "two"), ["broke", "good"])  # type: ignore[arg-type]
    assert done == ["one", "two", "published"]


def test_a_release_without_questions_is_refused_before_forecasters_run(tmp_path: Path) -> None:
    lake, declared, launched = Lake(str(tmp_path / "lake")), table("benchmark/questions"), list[str]()

    def launch(job: str, label: str, partitions: list[str]) -> None:
        launched.append(label)
        lake.write(declared, (partitions[0],), declared.empty(), run_id="run")

    work: Any = SimpleNamespace(lake=lake, launch=launch, instance=SimpleNamespace(add_dynamic_partitions=lambda *_: None))
    with pytest.raises(
        ConfigError, match=r"release sandbox-2026 has no questions: .* of kalshi.* settled after .*change the entry in releases\.toml"
    ):
        runs.evaluate_release(work, "sandbox-2026", ["always-half"])
    assert launched == ["questions of sandbox-2026"]


@pytest.mark.parametrize("fleet", [False, True])
def test_in_a_fleet_the_runs_send_the_requests_with_the_keys_of_workers(monkeypatch: pytest.MonkeyPatch, fleet: bool) -> None:
    if fleet:
        monkeypatch.setenv("BELLWETHER_FLEET", "celery")
    settings.cache_clear()
    launched: list[tuple[list[str], Any]] = []

    def release(work: object, name: str, forecasters: list[str], *, repeated: list[str], config: Any) -> dict[str, None]:
        launched.append((forecasters, config))
        return dict.fromkeys(forecasters)

    sent: list[object] = []
    monkeypatch.setattr("assets.benchmark.evaluation._send_calls", lambda *request: sent.append(request) or {})
    monkeypatch.setattr("assets.benchmark.runs.evaluate_release", release)
    monkeypatch.setattr("assets.summary.runs.publish", lambda work: None)
    model: Any = SimpleNamespace(name="model", model=SimpleNamespace(key_variable="NO_SUCH_KEY"))
    chosen = evaluation.EvaluationPlan(RELEASE, ["model"], {"model": model}, [model])
    assert evaluation.evaluate(None, chosen, pl.DataFrame(), Limits(dollars=Decimal(2))) == {"model": None}  # type: ignore[arg-type]
    ((forecasters, config),) = launched
    assert (forecasters, config["dollars"], bool(config["paid_by"]), bool(sent)) == (["model"], 2.0, True, not fleet)
    if fleet:
        evaluation.require_any_key([model])


# Partitions materialized in the UI


def materialize(world: World, model: str, **config: Any) -> dg.ExecuteInProcessResult:
    options = {"ops": {"benchmark__forecasts": {"config": config}}}
    return execute(world, "evaluate", "benchmark/forecasts", partition_key=f"{model}|{RELEASE}", run_config=options)


def test_a_partition_is_materialized_within_the_limits_of_its_configuration(calls: Calls, tmp_path: Path) -> None:
    with home_with_questions(tmp_path / "calls", RELEASE, "good", count=QUESTIONS) as world:
        result = materialize(world, "good", dollars=1.0)
        assert result.success
        (event,) = result.get_asset_materialization_events()
        metadata, found = event.materialization.metadata, rows(world, "benchmark/forecasts")
        assert metadata["answered"].value == QUESTIONS == found["call_key"].n_unique()
        assert metadata["dollars"].value == pytest.approx(calls.spent("good") / 1e6)
        assert int(found["cost"].sum() * 1_000_000) == calls.spent("good") > 0


def test_a_partition_beyond_its_budget_fails_with_the_reason_and_writes_nothing(calls: Calls, tmp_path: Path) -> None:
    with home_with_questions(tmp_path / "calls", RELEASE, "dear", count=QUESTIONS) as world:
        failed = materialize(world, "dear", dollars=0.01)
        (failure,) = failed.get_step_failure_events()
        assert "raise the budget and run again" in str(failure.step_failure_data.user_failure_data)
        assert KEY not in str(failure)
        assert not failed.get_asset_materialization_events()
        assert not world.lake.manifests(table("benchmark/forecasts"))


def test_an_audit_searches_the_stated_corpus(calls: Calls, tmp_path: Path) -> None:
    with home_with_questions(tmp_path / "calls", RELEASE, "good", count=QUESTIONS) as world:
        assert materialize(world, "good").success
        asked, (as_of, *_) = rows(world, "benchmark/questions").row(0, named=True), rows(world, "benchmark/forecasts")["as_of"]
        text = f"The answer was {asked['ground_truth']}."
        published_at = (as_of - timedelta(hours=1)).isoformat()
        document = {"id": "d", "title": asked["question"], "text": text, "published_at": published_at}
        corpus = tmp_path / "news.jsonl"
        corpus.write_text(json.dumps(document))
        options = {"ops": {"leak_audit": {"config": {"corpus": str(corpus)}}}}
        assert execute(world, "audit", partition_key=RELEASE, run_config=options).success
        found = rows(world, "benchmark/leaks").filter(kind="document")
        assert (asked["id"], "news.jsonl", "d", text) in found.select("question_id", "source", "other", "evidence").rows()
        assert {"document", "no document"} <= {*rows(world, "benchmark/leak_scores")["part"]}


# The command


@dataclass(frozen=True)
class Commands:
    """Commands on a copy of the demo home, with registered models and their provider."""

    world: World
    calls: Calls
    patch: pytest.MonkeyPatch

    def run(self, *words: str) -> Result:
        settings.cache_clear()
        self.patch.setattr("orchestration.definitions.defs", build_defs(config=settings()))
        return CliRunner().invoke(main, list(words))

    def evaluate(self, *words: str) -> tuple[int, set[str]]:
        """Run `bellwether evaluate`, and return its exit code and the models that it stopped."""
        result = self.run("evaluate", *words)
        return result.exit_code, set(re.findall(r"^Not done   (\S+): ", result.stdout, re.MULTILINE))

    def leaderboard(self, release: str = FEW) -> dict[str, dict[str, Any]]:
        board = query(self.world.config.warehouse_uri, "FROM benchmark.leaderboard WHERE release = $release", {"release": release})
        return {row["forecaster"]: row for row in board.to_dicts()}

    def forecasts(self, model: str, release: str = FEW) -> pl.DataFrame:
        return self.world.lake.slice(table("benchmark/forecasts"), [(release, model)]).read()

    def benchmark(self) -> dict[str, str]:
        folder = Path(self.world.lake.uri) / "benchmark"
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def commands(demo_copy: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """A home where only two baselines are evaluated in addition to the named models."""
    here = forecasting.available

    def few() -> dict[str, Any]:
        return {
            name: entry
            for name, entry in here().items()
            if isinstance(entry, LanguageModel) or name in ("market-24h", "base-rate", "guess")
        }

    monkeypatch.setattr(forecasting, "available", few)
    monkeypatch.setenv("DAGSTER_HOME", str(demo_copy.config.home / "dagster"))
    with opened(demo_copy.config.home, monkeypatch) as found:
        yield Commands(demo_copy, found, monkeypatch)


@pytest.mark.nightly
def test_a_stopped_evaluation_continues_and_is_ranked_with_the_baselines(commands: Commands) -> None:
    calls, samples = commands.calls, ("--samples", str(QUESTIONS))
    dry = commands.run("evaluate", "--models", "good", *samples, "--dry-run").stdout
    assert re.search(rf"\bgood\W+{QUESTIONS}\W+0\b", dry) and not calls.provider.asked.total()
    code, stopped = commands.evaluate("--models", *(name for name in MODELS if name != "many"), *samples, "--budget-per-model", "1.5")
    assert (code, stopped) == (1, STOPPED)
    board = commands.leaderboard()
    assert board.keys() >= {"good", "parrot", "market-24h", "base-rate"} and not board.keys() & STOPPED
    assert {row["n_questions"] for row in board.values()} == {QUESTIONS}
    assert (board["good"]["coverage"], board["good"]["rank"] is None, board["echo"]["rank"]) == (1, False, None)
    refused = commands.forecasts("echo")
    assert refused["p_yes"].null_count() == QUESTIONS and set(refused["failure"]) == {"provider_error"}
    answered, asked = calls.answers("dear"), calls.provider.calls("hostile")
    code, stopped = commands.evaluate("--models", *(name for name in MODELS if name != "many"), *samples, "--budget-per-model", "9")
    assert (code, stopped) == (1, STOPPED - {"dear"})
    assert calls.provider.calls("hostile") - asked == QUESTIONS - answered
    assert "dear" in commands.leaderboard()
    secret, home = KEY.encode(), commands.world.config.home
    assert [path for path in home.rglob("*") if path.is_file() and secret in path.read_bytes()] == []
    assert "You sent ***" in commands.forecasts("parrot")["raw_response"][0]
    assert KEY not in commands.run("query", "FROM benchmark.forecasts", "--json").stdout
    failures = json.loads(commands.run("journal", "--json").stdout)["failures"]
    assert {call["model"].rpartition("@")[2] for call in failures} >= {"expired", "broke", "unknown"}


@pytest.mark.nightly
def test_an_interrupt_ends_the_command_in_any_step_and_names_how_to_continue(commands: Commands) -> None:
    from bellwether.forecasting.baselines import MarketPrice

    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()

    commands.patch.setattr(MarketPrice, "forecast", interrupt)
    result = commands.run("evaluate", "--models", "good", "--samples", "3")
    assert (result.exit_code, "The same command continues" in result.stderr, result.stdout.strip()) == (1, True, "")
    finished = {name for release, name in commands.world.lake.manifests(table("benchmark/forecasts")) if release == f"{RELEASE}@3"}
    assert "market-24h" not in finished
