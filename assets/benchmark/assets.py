"""Assets of the benchmark: questions, forecasts, scores, reliability, leaderboard, comparisons and leaks of a release, its report and its dataset."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
import polars as pl

from assets.benchmark.partitions import RELEASE, RELEASE_FORECASTER, forecaster_list
from bellwether import checks, forecasting
from bellwether.errors import BellwetherError, ConfigError
from bellwether.lake import Slice
from bellwether.questions import ReleaseName, release
from bellwether.questions.release import digest
from bellwether.report.inputs import ReportInputs, add_registry
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.tables.benchmark import MODEL_KINDS
from bellwether.tables.schema import external_table
from orchestration.asset_declarations import FOLLOW_INPUTS, UpdatePolicy, key, site_link
from orchestration.partitions import ALL_DAYS, INDEPENDENT, from_key
from orchestration.steps import PartitionRows, StepOutput, make_each
from resources import LakeIOManager, LakeResource, ModelsResource
from resources.io_manager import MISSING, record_inputs
from resources.models import limits, payer
from resources.reports import ReportsResource

if TYPE_CHECKING:
    from bellwether.models.client import Limits

#: Failed forecasts are not retried for the same questions: a model may cost money.
ONCE = UpdatePolicy(attempts=1, candidates="assets.benchmark.partitions:automatic").metadata()
HISTORY = dg.AssetIn(key("clean/markets"), partition_mapping=ALL_DAYS)


class ScoreConfig(dg.Config):
    """Configuration of intervals and tests; the defaults are those of `bellwether.calibration.Inference`."""

    replicates: int = 1_000
    """Replicates of the tests of calibration."""
    seed: int = 1950
    """Seed of intervals and tests."""
    clusters: Literal["cluster", "series", "event"] = "cluster"
    """Unit of resampling: the release's own, series or events."""


class ForecastConfig(dg.Config):
    """Limits of the evaluation of a language model."""

    dollars: float | None = None
    """Budget in dollars; BELLWETHER_BUDGET when left out."""
    dollars_per_model: float | None = None
    """Budget of one model in dollars, where several runs share a budget."""
    paid_by: str | None = None
    """Name of a budget that several runs share. When left out, the runs of a backfill and the retries of a run share one."""


def _split_pair(name: str) -> tuple[str, str]:
    """Return release and forecaster. name: partition key of both."""
    release, forecaster = from_key(table("benchmark/forecasts"), name)
    return release, forecaster


@dg.asset(
    key=["benchmark", "questions"],
    group_name="benchmark",
    kinds={"polars"},
    ins={"markets": HISTORY, "prices": dg.AssetIn(key("clean/prices"), partition_mapping=ALL_DAYS)},
    partitions_def=RELEASE,
)
def questions(context: dg.AssetExecutionContext, lake: LakeResource, markets: Slice, prices: Slice) -> dg.MaterializeResult[pl.DataFrame]:
    """Build the questions of a release with their outcomes. The questions of a stored release do not change."""
    from bellwether.questions.versions import draw, load_fixed

    name = context.partition_key
    frame = load_fixed(lake.lake, name)
    if frame is None:
        whole = ReleaseName.parse(name).whole_name
        if name != whole and load_fixed(lake.lake, whole) is None:
            raise ConfigError(f"building release {name}: it consists of the first questions of {whole}, which is missing; build that first")
        frame = draw(lake.lake, name)
        checks.require("clean/markets", markets.scan())
        checks.require(
            "clean/prices",
            prices.scan().join(frame.lazy().select(venue="source", market_id="market_id"), on=["venue", "market_id"], how="semi"),
        )
    fixed: dict[str, Any] = {"version": release(name).number, "digest": digest(frame)}
    return dg.MaterializeResult(value=frame, metadata={"cutoff": release(name).cutoff.isoformat(), **fixed, **_question_counts(frame)})


def _question_counts(frame: pl.DataFrame) -> dict[str, Any]:
    """Count a release's questions, series, and questions by category, and compute the share of questions resolved YES."""
    yes = frame.filter(pl.col("ground_truth") == "yes").height
    return {
        "questions": frame.height,
        "series": frame["series_ticker"].n_unique(),
        "categories": dict(frame["category"].value_counts().sort("count", "category", descending=[True, False]).iter_rows()),
        "yes rate": yes / frame.height if frame.height else 0.0,
    }


@dg.asset(
    key=["benchmark", "resolutions"],
    group_name="benchmark",
    kinds={"duckdb"},
    metadata=FOLLOW_INPUTS,
    ins={
        "questions": dg.AssetIn(key("benchmark/questions"), partition_mapping=dg.AllPartitionMapping()),
        "markets": HISTORY,
        "resolutions": dg.AssetIn(key("clean/resolutions"), partition_mapping=ALL_DAYS),
    },
    partitions_def=RELEASE,
)
def resolutions(
    context: dg.AssetExecutionContext, questions: Slice, markets: Slice, resolutions: Slice
) -> dg.MaterializeResult[pl.DataFrame]:
    """Look up the outcomes of a release as known now, and whether they are disputed, corrected, void or late."""
    from bellwether.questions.resolutions import find_later_versions, resolve_questions

    release, stored = context.partition_key, questions.read()
    later = find_later_versions(stored, release)
    frame = resolve_questions(stored.filter(pl.col("release") == release), markets, resolutions, later)
    counts = frame["resolution_status"].value_counts().sort("resolution_status").iter_rows()
    return dg.MaterializeResult(value=frame, metadata=dict(counts))


@dg.asset(
    key=["benchmark", "forecasts"],
    group_name="benchmark",
    kinds={"polars"},
    metadata={**ONCE, "forecasters": dg.MetadataValue.md(forecaster_list())},
    ins={"questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE_FORECASTER,
    backfill_policy=INDEPENDENT,
)
def forecasts(
    context: dg.AssetExecutionContext,
    config: ForecastConfig,
    questions: Slice,
    models: ModelsResource,
    io_manager: dg.ResourceParam[LakeIOManager],
) -> Iterator[StepOutput]:
    """Make the forecasts of a forecaster on the questions of a release."""

    def make(pair: str) -> PartitionRows:
        release, name = _split_pair(pair)
        asking = models.of_run(config.paid_by or payer(context.run), _limits(config))
        frame = forecasting.forecaster(name).forecast(questions.restrict([(release,)]).read(), asking)
        return {"benchmark/forecasts": frame}, {"benchmark/forecasts": _forecast_counts(frame)}

    yield from make_each(context, io_manager, ("benchmark/forecasts",), make)


def _limits(config: ForecastConfig) -> "Limits":
    of_model = None if config.dollars_per_model is None else Decimal(str(config.dollars_per_model))
    return limits(config.dollars, of_model)


def _forecast_counts(frame: pl.DataFrame) -> dict[str, int | float | str]:
    """Count a forecaster's forecasts and failures, by kind of failure, and compute the cost in dollars."""
    failures = frame["failure"].drop_nulls().value_counts(sort=True)
    priced, cost = frame["cost"].count(), frame["cost"].sum()
    return {
        "answered": frame["p_yes"].count(),
        "without a forecast": frame["p_yes"].null_count(),
        "coverage": frame["p_yes"].count() / frame.height if frame.height else 0.0,
        **{f"failed: {kind}": count for kind, count in failures.rows()},
        **(
            {"contradictions": frame["contradiction"].count(), "repaired": int(frame["repaired"].sum())}
            if frame["repaired"].count()
            else {}
        ),
        **({"dollars": float(cost), "forecasts with a known price": priced} if priced else {}),
        **({"could have been known": count} if (count := int(frame["could_know"].sum())) else {}),
    }


@dg.asset(
    key=["benchmark", "scores"],
    group_name="benchmark",
    kinds={"numpy"},
    metadata=FOLLOW_INPUTS,
    ins={
        "forecasts": dg.AssetIn(key("benchmark/forecasts")),
        "questions": dg.AssetIn(key("benchmark/questions")),
        "resolutions": dg.AssetIn(key("benchmark/resolutions"), metadata={MISSING: "skip"}),
    },
    partitions_def=RELEASE_FORECASTER,
    backfill_policy=INDEPENDENT,
)
def scores(
    context: dg.AssetExecutionContext, config: ScoreConfig, io_manager: dg.ResourceParam[LakeIOManager], **tables: Slice
) -> Iterator[StepOutput]:
    """Compute all metrics of a forecaster on a release, with intervals."""
    from bellwether.calibration.scores import score

    def make(pair: str) -> PartitionRows:
        release, name = _split_pair(pair)
        rows = {table: part.restrict([(release, name)] if table == "forecasts" else [(release,)]).read() for table, part in tables.items()}
        frame = score(rows["forecasts"], rows["questions"], resolutions=rows["resolutions"], **config.model_dump())
        overall = frame.filter((pl.col("scope") == "all") & pl.col("value").is_not_null())
        return {"benchmark/scores": frame}, {"benchmark/scores": dict(zip(overall["metric"], overall["value"], strict=True))}

    yield from make_each(context, io_manager, ("benchmark/scores",), make)


@dg.asset(
    key=["benchmark", "reliability"],
    group_name="benchmark",
    kinds={"numpy"},
    metadata=FOLLOW_INPUTS,
    ins={"forecasts": dg.AssetIn(key("benchmark/forecasts")), "questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE_FORECASTER,
    backfill_policy=INDEPENDENT,
)
def reliability(
    context: dg.AssetExecutionContext, forecasts: Slice, questions: Slice, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Compute the reliability diagram of a forecaster on a release."""
    from bellwether.calibration.scores import reliability as bins

    def make(pair: str) -> PartitionRows:
        release, name = _split_pair(pair)
        return {"benchmark/reliability": bins(forecasts.restrict([(release, name)]).read(), questions.restrict([(release,)]).read())}, {}

    yield from make_each(context, io_manager, ("benchmark/reliability",), make)


@dg.multi_asset(
    name="ranking",
    group_name="benchmark",
    outs={
        "leaderboard": dg.AssetOut(key=["benchmark", "leaderboard"], metadata=FOLLOW_INPUTS, is_required=False),
        "comparisons": dg.AssetOut(key=["benchmark", "comparisons"], kinds={"numpy"}, metadata=FOLLOW_INPUTS, is_required=False),
        "ensembles": dg.AssetOut(key=["benchmark", "ensembles"], kinds={"numpy"}, metadata=FOLLOW_INPUTS, is_required=False),
    },
    ins={
        "scores": dg.AssetIn(key("benchmark/scores")),
        "forecasts": dg.AssetIn(key("benchmark/forecasts")),
        "questions": dg.AssetIn(key("benchmark/questions")),
    },
    partitions_def=RELEASE,
    can_subset=True,
)
def ranking(
    context: dg.AssetExecutionContext, config: ScoreConfig, scores: Slice, forecasts: Slice, questions: Slice
) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
    """Compare the forecasters of a release in pairs, rank them by Brier score, and score the means of the language models' forecasts."""
    from bellwether.calibration.answers import Answers
    from bellwether.calibration.scores import compare_forecasters, comparison_table, score_ensembles
    from bellwether.calibration.scores import leaderboard as rank
    from bellwether.questions.versions import require_questions

    if not scores.files:
        raise ConfigError(
            f"ranking release {context.partition_key}: no forecaster has been scored on it; materialize benchmark/scores first"
        )
    scored, questions_of_release = scores.read(), questions.read()
    require_questions(context.partition_key, questions_of_release)
    rows = forecasts.scan().join(scored.lazy().select("forecaster").unique(), on="forecaster", how="semi").collect()
    answers = Answers.of(rows, questions_of_release, config.clusters)
    comparison = compare_forecasters(answers, seed=config.seed)
    removed = dict.fromkeys(scored["forecaster"].unique(), "unregistered")
    kinds = removed | {name: entry.kind for name, entry in forecasting.forecasters().items()}
    frame = rank(scored, kinds, comparison=comparison, questions_digest=digest(questions_of_release))
    known_at = scored["known_at"].max()
    assert isinstance(known_at, datetime)
    if key("benchmark/leaderboard") in context.selected_asset_keys:
        yield dg.MaterializeResult(key("benchmark/leaderboard"), _leaderboard_counts(frame), value=frame)
    if key("benchmark/comparisons") in context.selected_asset_keys:
        pairs = comparison_table(comparison, release=context.partition_key, known_at=known_at)
        counts = {"pairs": pairs.height, "differ": pairs.filter(pl.col("p_holm") <= 0.05).height}
        yield dg.MaterializeResult(key("benchmark/comparisons"), counts, value=pairs)
    if key("benchmark/ensembles") in context.selected_asset_keys:
        members = [name for name in answers.names if kinds[name] in MODEL_KINDS]
        means = score_ensembles(answers, members, seed=config.seed)
        yield dg.MaterializeResult(key("benchmark/ensembles"), {"members": len(members)}, value=means)


class AuditConfig(dg.Config):
    """Configuration of the audit of a release."""

    corpus: str | None = None
    """File of documents that are searched for outcomes; when left out, the corpora of the forecasters that have one."""


@dg.multi_asset(
    name="leak_audit",
    group_name="benchmark",
    outs={
        "leaks": dg.AssetOut(key=["benchmark", "leaks"], kinds={"polars"}, metadata=FOLLOW_INPUTS, is_required=False),
        "leak_scores": dg.AssetOut(key=["benchmark", "leak_scores"], kinds={"numpy"}, metadata=FOLLOW_INPUTS, is_required=False),
    },
    ins={"forecasts": dg.AssetIn(key("benchmark/forecasts")), "questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE,
    can_subset=True,
)
def leak_audit(
    context: dg.AssetExecutionContext, config: AuditConfig, forecasts: Slice, questions: Slice
) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
    """Find questions that reveal each other's outcomes and documents that state them, and score the forecasters without these."""
    from bellwether.calibration.leak_scores import score_leaks
    from bellwether.questions.leaks import find_leaks, open_corpora

    answers, asked = forecasts.read(), questions.read()
    dated = answers.drop_nulls("as_of").group_by("question_id").agg(pl.col("as_of").unique().sort())
    path = None if config.corpus is None else Path(config.corpus)
    with open_corpora(answers["forecaster"].unique(), path) as corpora:
        leaks = find_leaks(asked, dict(dated.iter_rows()), corpora)
    if key("benchmark/leaks") in context.selected_asset_keys:
        counts = dict(leaks.group_by("kind").agg(pl.col("question_id").n_unique()).sort("kind").iter_rows())
        yield dg.MaterializeResult(key("benchmark/leaks"), {"corpora": ", ".join(corpora), **counts}, value=leaks)
    if key("benchmark/leak_scores") in context.selected_asset_keys:
        scored = score_leaks(answers, asked, leaks, searched=bool(corpora))
        yield dg.MaterializeResult(key("benchmark/leak_scores"), {"forecasters": scored["forecaster"].n_unique()}, value=scored)


def _leaderboard_counts(frame: pl.DataFrame) -> dict[str, int | float]:
    """Count the forecasters of a leaderboard, and find the best Brier score and the mean coverage (share of questions answered)."""
    ranked = frame.filter(pl.col("rank").is_not_null())
    best = ranked["brier"].min()
    return {
        "forecasters": frame.height,
        "ranked": ranked.height,
        **({"best Brier": float(best)} if isinstance(best, float) else {}),
        "mean coverage": float(frame["coverage"].cast(pl.Float64).fill_null(0.0).sum()) / max(frame.height, 1),
    }


@dg.asset(
    key=["benchmark", "dataset_analysis"],
    group_name="benchmark",
    kinds={"polars"},
    metadata=FOLLOW_INPUTS,
    ins={"questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE,
)
def dataset_analysis(questions: Slice) -> dg.MaterializeResult[pl.DataFrame]:
    """Compute statistics of the questions of a release."""
    from bellwether.questions.analysis import analyse

    frame = analyse(questions.read()).frame()
    return dg.MaterializeResult(value=frame, metadata={"statistics": frame.height})


REPORTED = ("questions", "forecasts", "scores", "reliability", "leaderboard", "comparisons", "dataset_analysis")


@dg.asset(
    key=["benchmark", "report"],
    group_name="benchmark",
    description="The report of a release: a page in Markdown with figures, and JSON with every metric and every prediction of every forecaster.\n\n"
    "Written to the folder `reports`; `bellwether export RELEASE --format report --to FOLDER` copies it.",
    kinds={"markdown", "json"},
    metadata={"page": site_link("benchmark/index.html"), **FOLLOW_INPUTS},
    ins={name: dg.AssetIn(key(f"benchmark/{name}")) for name in REPORTED},
    partitions_def=RELEASE,
)
def report(context: dg.AssetExecutionContext, reports: ReportsResource, lake: LakeResource, **tables: Slice) -> dg.MaterializeResult:
    """Write the report of a release."""
    from bellwether.report.writer import write_report

    if not tables["leaderboard"].files:
        raise ConfigError(f"reporting release {context.partition_key}: it has not been ranked; materialize benchmark/leaderboard first")
    ranked = tables["leaderboard"].scan().select("forecaster").collect()["forecaster"].implode()
    frames: dict[str, Any] = {
        name: rows.scan().filter(pl.col("forecaster").is_in(ranked)).collect() if "forecaster" in rows.table.names else rows.read()
        for name, rows in tables.items()
    }
    inputs = add_registry(ReportInputs(**frames))
    files = write_report(inputs, reports.uri)
    record_inputs(lake.lake, context, external_table("benchmark/report", "release"), tables)
    page = next(file for file in files if file.endswith(".md"))
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.path(page), "files": len(files)})


class ExportConfig(dg.Config):
    """Configuration of a dataset."""

    license_id: str | None = None
    """Licence in the spelling of the Hub."""


@dg.asset(
    key=["benchmark", "export"],
    group_name="benchmark",
    description="The questions of a release as a dataset folder for Hugging Face: Parquet and a card.\n\n"
    "Written to the folder `reports/datasets`; `bellwether export RELEASE --to FOLDER` copies it.",
    kinds={"huggingface", "parquet"},
    metadata={"page": site_link("benchmark/index.html")},
    ins={"questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE,
)
def export(context: dg.AssetExecutionContext, config: ExportConfig, questions: Slice, reports: ReportsResource) -> dg.MaterializeResult:
    """Write the questions of a release as a dataset."""
    from bellwether.publish import export as write

    name, frame = context.partition_key, questions.read()
    try:
        written = write(frame, reports.folder("datasets", name), world=settings().world, recipe=release(name), license_id=config.license_id)
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    return dg.MaterializeResult(metadata={"folder": dg.MetadataValue.path(str(written.folder)), "questions": written.rows})
