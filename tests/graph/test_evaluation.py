"""`bellwether evaluate` for users: several models together, budgets, interruptions, and models that cannot be queried."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import polars as pl
import pytest
from click.testing import CliRunner, Result

from assets.benchmark import evaluation
from assets.benchmark.runs import build_questions as fixed_questions
from assets.benchmark.runs import evaluate_release as run_release
from assets.warehouse.runs import publish as publish_warehouse
from bellwether import forecasting
from bellwether.figures import canvas
from bellwether.forecasting import Forecaster
from bellwether.forecasting.evaluation import Evaluation
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.models.client import Limits
from bellwether.questions.release import digest
from bellwether.report import figures
from bellwether.settings import Settings, settings
from bellwether.tables import table
from cli.main import main
from orchestration.definitions import build_defs
from orchestration.run_session import runner
from tests.unit.models.failing_provider import KEY, VARIABLE, Provider, provider, write_models
from tests.orchestration.conftest import World
from tests.shared import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
RELEASES = """
[own]
description = "Six questions of the sandbox."
cutoff = 2025-10-01T00:00:00Z
until = 2026-07-01T00:00:00Z
sample_size = {size}
worlds = ["sandbox"]
seed = 42
"""


@dataclass(frozen=True)
class Harness:
    """A user's machine: a home with eight days of the sandbox, a registry, a key, and a provider that counts requests."""

    home: Path
    provider: Provider
    url: str
    definitions: dict[Settings, dg.Definitions] = field(default_factory=dict)

    @property
    def registry(self) -> Path:
        return self.home / "registry"

    @property
    def variables(self) -> dict[str, str]:
        return {"BELLWETHER_HOME": str(self.home), "BELLWETHER_REGISTRY": str(self.registry), VARIABLE: KEY}

    def run(self, *arguments: str, **environment: str | None) -> Result:
        """Run a command in this process."""
        with self.at(**environment):
            return CliRunner().invoke(main, list(arguments))

    def evaluate(self, *arguments: str, **environment: str | None) -> tuple[int, dict[str, Any]]:
        """Run `bellwether evaluate`, and return its exit code and report."""
        result = self.run("evaluate", *arguments, "--json", **environment)
        assert result.exit_code in (0, 1), result.output
        assert result.stdout, result.output
        return result.exit_code, json.loads(result.stdout)

    def at(self, **environment: str | None) -> Any:
        return _environment({**self.variables, **environment}, self.definitions)

    @property
    def lake(self) -> Lake:
        return Lake(str(self.home / "sandbox" / "lake"))

    def forecasts(self, release: str, model: str) -> pl.DataFrame:
        return self.lake.slice(table("benchmark/forecasts"), [(release, model)]).read()

    def has(self, release: str, model: str) -> bool:
        return any((release, model) in self.lake.manifests(table(name)) for name in ("benchmark/forecasts", "benchmark/scores"))

    def answers(self, model: str) -> int:
        with Journal(f"sqlite:///{self.home / 'sandbox' / 'journal.db'}") as journal:
            counts = journal.counts().filter(pl.col("model").str.ends_with(f"@{model}"), state="answered")
            return int(counts["calls"].sum())

    def spent(self, model: str) -> int:
        with Journal(f"sqlite:///{self.home / 'sandbox' / 'journal.db'}") as journal:
            return int(journal.usage("model").filter(pl.col("model").str.ends_with(f"@{model}"))["spent"].sum())


class _environment:
    """Set the environment, the settings and the graph of a home during a block. Graphs are cached."""

    def __init__(self, variables: dict[str, str | None], definitions: dict[Settings, dg.Definitions]) -> None:
        self._variables = variables
        self._definitions = definitions
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        for name, value in self._variables.items():
            self._patch.setenv(name, value) if value is not None else self._patch.delenv(name, raising=False)
        settings.cache_clear()
        self._patch.setenv("DAGSTER_HOME", str(settings().dagster_home))
        if settings() not in self._definitions:
            self._definitions[settings()] = build_defs(config=settings())
        self._patch.setattr("orchestration.definitions.defs", self._definitions[settings()])

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        settings.cache_clear()


def contents(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder. SQLite's temporary files are listed without a digest."""
    return {
        str(path.relative_to(folder)): "" if path.name.endswith("-shm") else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


RELEASE = "sandbox-2026@6"
#: Six questions, and four samples of each for a model registered so.
QUESTIONS, SAMPLES = 6, 4
BASELINES = ("market-24h", "base-rate")
MODELS: dict[str, dict[str, Any]] = {
    "good": {"model": "openai/calibrated"},
    "new": {"model": "openai/timid"},
    "expired": {"model": "openai/expired", "key_variable": "TEST_EXPIRED_KEY"},
    "broke": {"model": "openai/broke", "key_variable": "TEST_BROKE_KEY"},
    "unknown": {"model": "openai/nobody-knows-it"},
    "keyless": {"model": "openai/calibrated", "key_variable": "TEST_MISSING_KEY"},
    "dear": {"model": "openai/overconfident", "input_price": 1000},
    "dearer": {"model": "openai/overconfident", "input_price": 1000},
    "dead": {"model": "openai/calibrated", "api_base": "http://127.0.0.1:9/v1"},
    "echo": {"model": "openai/echo"},
    "parrot": {"model": "openai/parrot"},
    "many": {"model": "openai/noisy", "samples": SAMPLES, "combine": "median"},
    "by-hand": {"model": "openai/calibrated"},
    "too-dear": {"model": "openai/calibrated", "input_price": 1000},
}
FAILING = ("good", "expired", "broke", "unknown", "keyless", "dear", "dead", "echo", "parrot")
OTHER_KEYS = {"TEST_EXPIRED_KEY": "sandbox-expired", "TEST_BROKE_KEY": "sandbox-broke", "TEST_MISSING_KEY": None}


@pytest.fixture(scope="module")
def frugal(evaluated: World) -> Iterator[None]:
    """Reduce the run to two baselines and no pictures, which these tests do not need."""
    with pytest.MonkeyPatch.context() as patch:
        here = forecasting.available

        def few() -> dict[str, Forecaster]:
            return {name: entry for name, entry in here().items() if isinstance(entry, LanguageModel) or name in BASELINES}

        patch.setattr(forecasting, "available", few)
        patch.setattr(figures, "_cache", OrderedDict())
        patch.setattr(canvas, "png", lambda *_: b"\x89PNG")
        yield


@pytest.fixture(scope="module")
def harness(evaluated: World, frugal: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A home where two models, including one of the sandbox, and the baselines answered six questions."""
    home = tmp_path_factory.mktemp("harness")
    shutil.copytree(evaluated.config.home / "sandbox" / "lake", home / "sandbox" / "lake")
    with provider(latency=0.02) as (asked, url):
        harness = Harness(home, asked, url)
        write_models(harness.registry, url, MODELS)
        assert harness.run("journal", "create").exit_code == 0  # the copied lake has answers of the demo's journal
        code, report = harness.evaluate("--models", "good", "sandbox-refusing", "--samples", str(QUESTIONS))
        assert (code, report["stopped"]) == (0, {})
        yield harness


@pytest.fixture(scope="module")
def failures(harness: Harness) -> tuple[int, dict[str, Any]]:
    """Result of an evaluation in which most models cannot be queried or do not finish."""
    return harness.evaluate(
        "--models", *FAILING, "--samples", str(QUESTIONS), "--budget-per-model", "1.50", "--concurrency", "4", **OTHER_KEYS
    )


def leaderboard(harness: Harness, release: str = RELEASE) -> dict[str, dict[str, Any]]:
    result = harness.run("leaderboard", release, "--json")
    assert result.exit_code == 0, result.output
    return {row["forecaster"]: row for row in json.loads(result.stdout)[release]}


# --- the usual case --------------------------------------------------------------------------------------------------


def test_models_are_ranked_beside_the_baselines_on_the_first_questions_of_the_release(harness: Harness) -> None:
    rows = leaderboard(harness)
    assert {"good", "sandbox-refusing", "market-24h", "base-rate"} <= set(rows)
    assert {row["n_questions"] for row in rows.values()} == {QUESTIONS}
    assert rows["good"]["rank"] is not None
    assert rows["good"]["coverage"] == 1


def test_every_forecast_knows_its_call_and_what_it_cost(harness: Harness) -> None:
    found = harness.forecasts(RELEASE, "good")
    assert found.height == QUESTIONS
    assert found["p_yes"].null_count() == 0
    assert found["call_key"].n_unique() == QUESTIONS
    assert set(found["cost_source"]) == {"price_list"}
    assert int(found["cost"].sum() * 1_000_000) == harness.spent("good") > 0


def test_a_model_that_says_nothing_is_listed_without_a_rank_and_its_rows_say_why(harness: Harness) -> None:
    assert leaderboard(harness)["sandbox-refusing"]["rank"] is None
    found = harness.forecasts(RELEASE, "sandbox-refusing")
    assert found["p_yes"].null_count() == QUESTIONS
    assert found["failure"].null_count() == 0
    assert found["error"].null_count() == 0


def test_a_dry_run_says_what_it_would_take_and_asks_nothing(harness: Harness) -> None:
    asked, before = harness.provider.asked.copy(), contents(harness.home)
    result = harness.run("evaluate", "--models", "good", "new", "--samples", str(QUESTIONS), "--dry-run", "--json")
    have, new = json.loads(result.stdout)
    assert (have["model"], have["calls"], have["answered already"]) == ("good", 0, QUESTIONS)
    assert (new["model"], new["calls"], new["answered already"]) == ("new", QUESTIONS, 0)
    assert 0 < float(new["expected $"]) <= float(new["at most $"])
    assert new["price map"].startswith("litellm ")
    text = harness.run("evaluate", "--models", "new", "--samples", str(QUESTIONS), "--dry-run").output
    other = harness.run("evaluate", "--models", "new", "--release", "sandbox-both", "--samples", "5", "--dry-run", "--json")
    assert json.loads(other.stdout)[0]["calls"] == 5
    assert harness.provider.asked == asked
    assert contents(harness.home) == before
    assert "No request was sent" in text
    assert max(map(len, text.splitlines()[:4])) <= 80


# --- what cannot be asked --------------------------------------------------------------------------------------------


def test_one_model_that_cannot_be_asked_stops_no_other(harness: Harness, failures: tuple[int, dict[str, Any]]) -> None:
    code, report = failures
    assert code == 1
    assert set(report["stopped"]) == {"expired", "broke", "unknown", "keyless", "dear", "dead"}
    rows = {row["forecaster"] for row in report["leaderboards"][RELEASE]}
    assert {"good", "parrot"} <= rows
    assert not rows & set(report["stopped"])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("expired", r"HTTP 401.*set the right key and resume"),
        ("broke", r"HTTP 402.*add credit at the provider and resume"),
        ("unknown", r"HTTP 404.*nobody-knows-it.*models\.toml"),
        ("keyless", r"TEST_MISSING_KEY is not set"),
        ("dear", r"budget.*raise the budget and resume"),
        (
            "dead",
            r"no connection to http://127\.0\.0\.1:9/v1/chat/completions \(Connection refused\); start the server or correct the address",
        ),
    ],
)
def test_why_a_model_stopped_is_said_once_with_what_to_do(failures: tuple[int, dict[str, Any]], model: str, reason: str) -> None:
    import re

    said = failures[1]["stopped"][model]
    assert re.search(reason, said), said
    assert said.count(f"calling {model}") == 1
    assert "Traceback" not in said


@pytest.mark.usefixtures("failures")
def test_a_model_that_stopped_has_no_partition_and_keeps_what_it_paid_for(harness: Harness) -> None:
    for model in ("expired", "broke", "unknown", "keyless", "dear", "dead"):
        assert not harness.has(RELEASE, model)
    assert 0 < harness.answers("dear") < QUESTIONS
    assert 0 < harness.spent("dear") <= 1_500_000
    assert harness.spent("expired") == harness.spent("broke") == harness.spent("unknown") == 0


@pytest.mark.usefixtures("failures")
def test_the_calls_of_a_dead_endpoint_are_listed_as_failures(harness: Harness) -> None:
    found = json.loads(harness.run("journal", "failures", "--json").stdout)
    assert {call["state"] for call in found if call["model"].endswith("@dead")} == {"open"}
    assert any("Connection refused" in call["reason"] for call in found)


@pytest.mark.usefixtures("failures")
def test_a_request_that_the_provider_does_not_take_is_a_row_with_its_words(harness: Harness) -> None:
    found = harness.forecasts(RELEASE, "echo")
    assert found["p_yes"].null_count() == QUESTIONS
    assert set(found["failure"]) == {"provider_error"}
    assert all("I do not understand" in reason for reason in found["error"])


@pytest.mark.usefixtures("failures")
def test_a_resumed_evaluation_asks_only_what_has_no_answer(harness: Harness) -> None:
    answered, asked = harness.answers("dear"), harness.provider.calls("overconfident")
    code, report = harness.evaluate("--resume", "--budget-per-model", "9", **OTHER_KEYS)
    assert code == 1
    assert set(report["stopped"]) == {"expired", "broke", "unknown", "keyless", "dead"}
    assert harness.answers("dear") == QUESTIONS
    assert harness.provider.calls("overconfident") - asked == QUESTIONS - answered
    assert harness.provider.most("overconfident") == 1
    assert "dear" in leaderboard(harness)


@pytest.mark.usefixtures("failures")
def test_the_key_is_nowhere(harness: Harness, caplog: pytest.LogCaptureFixture, failures: tuple[int, dict[str, Any]]) -> None:
    """Neither in files, nor in decoded tables, nor in the journal, nor in any output."""
    secret = KEY.encode()
    assert [path for path in harness.home.rglob("*") if path.is_file() and secret in path.read_bytes()] == []
    for path in harness.home.rglob("*.parquet"):
        assert KEY not in str(pl.read_parquet(path).select(pl.col(pl.String).str.join("\n")).rows()), path
    with Journal(f"sqlite:///{harness.home / 'sandbox' / 'journal.db'}") as journal:
        for name, frame in journal.export().items():
            assert KEY not in str(frame.rows()), name
            assert secret not in b"".join(
                value for value in frame.select(pl.col(pl.Binary)).to_dict(as_series=False).values() for value in value if value
            )
    tables = harness.run("query", "FROM benchmark.forecasts", "--json", "--rows", "10000").stdout
    assert "parrot" in tables
    assert KEY not in tables
    assert KEY not in json.dumps(failures[1])
    assert KEY not in caplog.text
    assert "You sent ***" in harness.forecasts(RELEASE, "parrot")["raw_response"][0]


# --- budget ----------------------------------------------------------------------------------------------------------


def test_a_budget_of_zero_asks_nobody_who_costs_money(harness: Harness) -> None:
    asked = harness.provider.asked.total()
    code, report = harness.evaluate("--models", "dearer", "--samples", str(QUESTIONS), BELLWETHER_BUDGET="0")
    assert (code, harness.provider.asked.total(), harness.spent("dearer")) == (1, asked, 0)
    assert "the budget of run" in report["stopped"]["dearer"] and "is $0.00" in report["stopped"]["dearer"]


def test_the_budget_of_all_models_is_a_hard_stop_and_a_raised_one_is_remembered(harness: Harness) -> None:
    from bellwether.forecasting.evaluation import Evaluations

    asked = harness.provider.calls("overconfident")
    code, report = harness.evaluate("--models", "dearer", "--samples", str(QUESTIONS), "--budget", "1.8")
    assert code == 1
    assert "raise the budget" in report["stopped"]["dearer"]
    have, paid = harness.answers("dearer"), harness.spent("dearer")
    assert 0 < have < QUESTIONS
    assert 0 < paid <= 1_800_000
    assert not harness.has(RELEASE, "dearer")
    code, _ = harness.evaluate("--resume", "--budget", "2.1")
    assert code == 1
    assert have < harness.answers("dearer") < QUESTIONS
    assert paid < harness.spent("dearer") <= 2_100_000
    assert harness.provider.calls("overconfident") - asked == harness.answers("dearer")
    assert str(Evaluations(harness.home / "sandbox" / "evaluations").read_unfinished(RELEASE).dollars) == "2.1"


# --- interrupted -----------------------------------------------------------------------------------------------------


def test_after_a_kill_it_goes_on_and_nothing_answered_is_asked_again(harness: Harness) -> None:
    arguments = ["evaluate", "--models", "many", "--samples", str(QUESTIONS), "--concurrency", "1", "--json"]
    command = [sys.executable, "-m", "bellwether", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **harness.variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        wait_until(lambda: process.poll() is not None or harness.provider.calls("noisy") >= 5, "five requests")
        assert process.poll() is None, process.communicate(timeout=60)[0]
        process.send_signal(signal.SIGKILL)
    answered, asked = harness.answers("many"), harness.provider.calls("noisy")
    assert 4 <= answered <= asked < QUESTIONS * SAMPLES
    assert asked - answered <= 1
    code, report = harness.evaluate("--resume")
    assert (code, report["stopped"]) == (0, {})
    assert harness.answers("many") == QUESTIONS * SAMPLES
    assert harness.provider.calls("noisy") == QUESTIONS * SAMPLES + (asked - answered)
    found = harness.forecasts(RELEASE, "many")
    assert found.group_by("question_id").len()["len"].to_list() == [SAMPLES] * QUESTIONS
    assert leaderboard(harness)["many"]["n"] == QUESTIONS


def test_an_interrupt_while_asking_waits_for_what_is_paid_for(harness: Harness) -> None:
    command = [sys.executable, "-m", "bellwether", "evaluate", "--models", "many", "--samples", "40", "--json"]
    have, before = harness.answers("many"), harness.provider.calls("noisy")
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **harness.variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: process.poll() is not None or harness.provider.calls("noisy") >= before + 5, "five requests")
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "Waiting for the answers that are under way" in said
    assert "--resume" in said
    assert not out.strip()
    asked = harness.provider.calls("noisy") - before
    assert 5 <= asked == harness.answers("many") - have
    code, report = harness.evaluate("--resume")
    assert (code, report["stopped"]) == (0, {})
    assert asked < harness.provider.calls("noisy") - before == harness.answers("many") - have


def test_an_interrupt_ends_the_command_whatever_it_is_doing_and_says_how_to_go_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bellwether.forecasting.baselines import MarketPrice
    from bellwether.forecasting.evaluation import Evaluations

    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(MarketPrice, "forecast", interrupt)
    result = harness.run("evaluate", "--models", "good", "--samples", "3", "--json")
    assert result.exit_code == 1
    assert "--resume" in result.stderr
    assert "Aborted" in result.stderr
    assert not result.stdout.strip()
    finished = {who for release, who in harness.lake.manifests(table("benchmark/forecasts")) if release == "sandbox-2026@3"}
    assert finished <= {"base-rate"}, "only the baseline before the interrupted one"
    evaluations = Evaluations(harness.home / "sandbox" / "evaluations")
    evaluations.finish(evaluations.read_unfinished("sandbox-2026@3"))


def test_a_resumed_evaluation_has_the_questions_that_it_began_with_or_is_refused(harness: Harness) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    from bellwether.forecasting.evaluation import Evaluation, Evaluations

    (harness.registry / "releases.toml").write_text(RELEASES.format(size=6))
    assert harness.run("release", "own", "--forecaster", "always-half").exit_code == 0
    questions = harness.lake.slice(table("benchmark/questions"), [("own",)]).read()
    assert questions.height == QUESTIONS
    evaluations = Evaluations(harness.home / "sandbox" / "evaluations")
    begun = Evaluation.of("own", ["new"], Decimal(1), questions, datetime(2027, 1, 1, tzinfo=UTC))
    evaluations.store(begun)
    (harness.registry / "releases.toml").write_text(RELEASES.format(size=8))
    resumed = harness.run("evaluate", "--resume", "--release", "own", "--dry-run", "--json")
    assert json.loads(resumed.stdout)[0]["calls"] == QUESTIONS
    evaluations.store(Evaluation.of("own", ["new"], Decimal(1), questions.head(4), datetime(2027, 1, 1, tzinfo=UTC)))
    refused = harness.run("evaluate", "--resume", "--release", "own", "--dry-run")
    assert refused.exit_code == 1
    assert "have changed since it began: 0 have another text or date, 2 are new, 0 were removed" in refused.output
    assert harness.provider.calls("timid") == 0
    evaluations.finish(begun)


# --- said at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--models", "gold"], 1, "did you mean good"),
        (["--models"], 2, "--models"),
        ([], 2, "name at least one model"),
        (["--models", "good", "--budget", "much"], 2, "is not an amount of dollars"),
        (["--models", "good", "--samples", "0"], 2, "--samples"),
        (["--models", "good", "--release", "sandbox-1999"], 1, "no release is called 'sandbox-1999'"),
        (["--resume", "--release", "sandbox-both"], 1, "no unfinished evaluation"),
    ],
)
def test_what_cannot_be_evaluated_is_said_before_anything_is_asked(harness: Harness, arguments: list[str], code: int, said: str) -> None:
    before = harness.provider.asked.copy()
    result = harness.run("evaluate", *arguments)
    assert (result.exit_code, harness.provider.asked) == (code, before)
    assert said in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_the_sandboxs_models_are_refused_in_the_live_world(harness: Harness) -> None:
    result = harness.run("evaluate", "--models", "sandbox-calibrated", BELLWETHER_WORLD="live")
    assert result.exit_code == 1
    assert "cannot be asked in the world live" in result.output


# --- from the UI -----------------------------------------------------------------------------------------------------


def materialize(harness: Harness, model: str, **config: Any) -> dg.ExecuteInProcessResult:
    """Materialize a partition like the UI: the job `evaluate` with run configuration."""
    with harness.at(), dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("forecaster", [model])
        return (
            harness.definitions[settings()]
            .resolve_job_def("evaluate")
            .execute_in_process(
                instance=instance,
                partition_key=str(dg.MultiPartitionKey({"release": RELEASE, "forecaster": model})),
                run_config={"ops": {"benchmark__forecasts": {"config": config}}},
                raise_on_error=False,
            )
        )


def test_a_partition_is_materialized_within_the_limits_of_its_configuration(harness: Harness) -> None:
    result = materialize(harness, "by-hand", dollars=1.0, concurrency=2, requests_per_minute=6000)
    assert result.success
    event = next(e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(["benchmark", "forecasts"]))
    metadata = event.materialization.metadata
    assert metadata["answered"].value == QUESTIONS
    assert metadata["dollars"].value == pytest.approx(harness.spent("by-hand") / 1e6)
    assert harness.has(RELEASE, "by-hand")


def test_a_partition_that_fails_says_why_and_writes_nothing(harness: Harness) -> None:
    result = materialize(harness, "too-dear", dollars=0.01)
    assert not result.success
    (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failure.error is not None
    assert "raise the budget and resume" in failure.error.message
    assert "dagster._core.definitions.events.Failure" in failure.error.message
    assert failure.error.cause is None or "raise the budget" in failure.error.cause.message
    assert KEY not in str(failure)
    assert not harness.has(RELEASE, "too-dear")
    assert not result.get_asset_materialization_events()


# --- out of date -----------------------------------------------------------------------------------------------------

GUESS = """
[guess]
kind = "constant"
p_yes = {p_yes}
description = "Always the same."
"""


def test_an_entry_that_changes_is_asked_again_and_a_recipe_that_changes_makes_a_new_version_on_request(harness: Harness) -> None:
    releases, forecasters = harness.registry / "releases.toml", harness.registry / "forecasters.toml"

    def forecast(*names: str) -> set[str]:
        """Forecast, and return the jobs that ran."""
        with harness.at(), runner(venues=False) as work:
            assert set(run_release(work, "changing", names).values()) <= {None}
            publish_warehouse(work)
            return set(work.stats.by_job)

    def counts() -> dict[str, tuple[int, int, str]]:
        return {name: (row["n"], row["n_questions"], row["kind"]) for name, row in leaderboard(harness, "changing").items()}

    changing = RELEASES.replace("[own]", "[changing]")
    releases.write_text(changing.format(size=6))
    forecasters.write_text(GUESS.format(p_yes=0.3))
    assert "evaluate" in forecast("always-half", "guess")
    assert forecast("always-half", "guess") == set()
    forecasters.write_text(GUESS.format(p_yes=0.4))
    assert forecast("always-half", "guess") == {"evaluate", "rank", "publish"}
    assert set(harness.forecasts("changing", "guess")["p_yes"]) == {0.4}
    releases.write_text(changing.format(size=8))
    assert forecast("always-half") == set()
    assert counts() == {"always-half": (6, 6, "constant"), "guess": (6, 6, "constant")}
    forecasters.write_text("")
    made = harness.run("release", "changing", "--new-version", "--yes", "--forecaster", "always-half", "--json")
    assert made.exit_code == 0, made.output
    assert counts() == {"always-half": (6, 6, "constant"), "guess": (6, 6, "constant")}
    assert [(name, row["n"], row["n_questions"]) for name, row in leaderboard(harness, "changing.v2").items()] == [("always-half", 8, 8)]


def test_more_history_changes_no_published_number_and_enters_with_a_new_version(harness: Harness) -> None:
    def published() -> list[dict[str, Any]]:
        return [row for _, row in sorted(leaderboard(harness, RELEASE).items())]

    before, questions = published(), harness.lake.slice(table("benchmark/questions"), [(RELEASE,)]).read()
    assert {row["questions_digest"] for row in before} == {digest(questions)}
    assert harness.run("pull", "2026-03-28", "2026-03-29").exit_code == 0
    shown = json.loads(harness.run("release", "sandbox-2026", "--diff", "--json").stdout)[0]
    assert (shown["release"], shown["new"]) == ("sandbox-2026", "sandbox-2026.v2")
    assert shown["added"] > 0
    untouched = contents(harness.home / "sandbox" / "lake" / "benchmark")
    with harness.at(), runner(venues=False) as work:
        assert fixed_questions(work, RELEASE).equals(questions)
        assert work.stats.runs == 0
    assert contents(harness.home / "sandbox" / "lake" / "benchmark") == untouched
    assert published() == before
    listed = next(row for row in json.loads(harness.run("release", "--list", "--json").stdout) if row["release"] == "sandbox-2026")
    assert [one["name"] for one in listed["versions"]] == ["sandbox-2026"]
    refused = harness.run("release", "sandbox-2026", "--new-version")
    assert refused.exit_code == 2
    assert "would have" in refused.output
    assert "add --yes" in refused.output
    assert contents(harness.home / "sandbox" / "lake" / "benchmark") == untouched


@pytest.mark.parametrize("fleet", [False, True])
def test_in_a_fleet_the_runs_send_the_requests_with_the_keys_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fleet: bool
) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
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
    monkeypatch.setattr("assets.warehouse.runs.publish", lambda work: None)
    model: Any = SimpleNamespace(name="model", model=SimpleNamespace(key_variable="NO_SUCH_KEY"))
    chosen = evaluation.EvaluationPlan("sandbox-2026", ["model"], {"model": model}, [model])
    begun = Evaluation("evaluate-20260701T000000Z", "sandbox-2026", ("model",), Decimal(1), {})
    assert evaluation.evaluate(None, chosen, pl.DataFrame(), begun, Limits(dollars=Decimal(2))) == {"model": None}
    ((forecasters, config),) = launched
    assert (forecasters, config["dollars"], config["paid_by"], bool(sent)) == (["model"], 2.0, begun.run, not fleet)
    if fleet:
        evaluation.require_any_key([model])
    settings.cache_clear()
