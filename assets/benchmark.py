"""The benchmark: questions of a release, every forecaster's forecasts on them, scores, reliability and the leaderboard."""

import dagster as dg
import polars as pl

from assets.declare import key, of
from assets.figures import picture
from bellwether.calibration import Bootstrap
from bellwether.errors import ConfigError
from bellwether.lake import Slice
from orchestration.automation import FOLLOW, FOLLOW_ANY, follow_except
from orchestration.partitions import ALL_DAYS, RELEASE, RELEASE_FORECASTER

HISTORY = dg.AssetIn(key("clean/markets"), partition_mapping=ALL_DAYS)


class ScoreConfig(dg.Config):
    """How intervals are made."""

    replicates: int = Bootstrap().replicates
    """Replicates of the cluster bootstrap."""
    seed: int = Bootstrap().seed
    """Seed of the cluster bootstrap, the same for all forecasters, so that their intervals are paired."""


def _pair(context: dg.AssetExecutionContext) -> tuple[str, str]:
    keys = context.partition_key.keys_by_dimension
    return keys["release"], keys["forecaster"]


@dg.asset(
    **of("benchmark/questions", "polars"),
    ins={"markets": HISTORY, "prices": dg.AssetIn(key("clean/prices"), partition_mapping=ALL_DAYS)},
    partitions_def=RELEASE,
    automation_condition=FOLLOW_ANY,
)
def questions(context: dg.AssetExecutionContext, markets: Slice, prices: Slice) -> dg.Output[pl.DataFrame]:
    """One question of a benchmark release, with its resolved outcome."""
    from bellwether.checks.gate import require
    from bellwether.questions import build, release

    spec = release(context.partition_key)
    frame = build(spec, markets.scan(), prices.scan())
    require("clean/markets", markets.scan())
    require(
        "clean/prices",
        prices.scan().join(frame.lazy().select(venue="source", market_id="market_id"), on=["venue", "market_id"], how="semi"),
    )
    return dg.Output(frame, metadata={"cutoff": spec.cutoff.isoformat(), "rules": spec.version, **_shape(frame)})


def _shape(frame: pl.DataFrame) -> dict[str, int | float]:
    yes = frame.filter(pl.col("ground_truth") == "yes").height
    return {
        "questions": frame.height,
        "series": frame["series_ticker"].n_unique(),
        "categories": frame["category"].n_unique(),
        "yes rate": yes / frame.height if frame.height else 0.0,
    }


@dg.asset(
    **of("benchmark/forecasts", "polars"),
    ins={"questions": dg.AssetIn(key("benchmark/questions")), "markets": HISTORY},
    partitions_def=RELEASE_FORECASTER,
    automation_condition=follow_except("clean/markets"),
)
def forecasts(context: dg.AssetExecutionContext, questions: Slice, markets: Slice) -> dg.Output[pl.DataFrame]:
    """One forecast of one forecaster on one question, or the reason why there is none."""
    from bellwether.forecasting import forecaster

    _, name = _pair(context)
    frame = forecaster(name).forecast(questions.read(), markets.scan())
    answered = frame["p_yes"].count()
    return dg.Output(frame, metadata={"answered": answered, "without a forecast": frame.height - answered})


@dg.asset(
    **of("benchmark/scores", "numpy"),
    ins={"forecasts": dg.AssetIn(key("benchmark/forecasts")), "questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE_FORECASTER,
    automation_condition=FOLLOW,
)
def scores(config: ScoreConfig, forecasts: Slice, questions: Slice) -> dg.Output[pl.DataFrame]:
    """One metric of one forecaster on one release, over all questions or one category, with its interval."""
    from bellwether.calibration.scores import score

    frame = score(forecasts.read(), questions.read(), replicates=config.replicates, seed=config.seed)
    overall = frame.filter((pl.col("scope") == "all") & pl.col("value").is_not_null())
    return dg.Output(frame, metadata=dict(zip(overall["metric"], overall["value"], strict=True)))


@dg.asset(
    **of("benchmark/reliability", "numpy"),
    ins={"forecasts": dg.AssetIn(key("benchmark/forecasts")), "questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE_FORECASTER,
    automation_condition=FOLLOW,
)
def reliability(context: dg.AssetExecutionContext, forecasts: Slice, questions: Slice) -> dg.Output[pl.DataFrame]:
    """One bin of a forecaster's reliability diagram on one release."""
    from bellwether.calibration.scores import reliability as bins
    from bellwether.report.plots import reliability_diagram

    release, name = _pair(context)
    frame = bins(forecasts.read(), questions.read())
    return dg.Output(frame, metadata={"reliability diagram": picture(reliability_diagram(frame, f"{name} on {release}"))})


@dg.asset(
    **of("benchmark/leaderboard", "polars"),
    ins={"scores": dg.AssetIn(key("benchmark/scores"))},
    partitions_def=RELEASE,
    automation_condition=FOLLOW_ANY,
)
def leaderboard(context: dg.AssetExecutionContext, scores: Slice) -> dg.Output[pl.DataFrame]:
    """One forecaster's line on a release's leaderboard, ranked by Brier score, with intervals and coverage."""
    from bellwether.calibration.scores import leaderboard as rank
    from bellwether.forecasting import forecasters
    from bellwether.report.plots import score_comparison

    if not scores.files:
        raise ConfigError(
            f"ranking release {context.partition_key}: no forecaster has been scored on it; materialize benchmark/scores first"
        )
    kinds = {name: entry.kind for name, entry in forecasters().items()}
    frame = rank(scores.read(), kinds)
    return dg.Output(frame, metadata={"scores": picture(score_comparison(frame)), "forecasters": frame.height, "table": _table(frame)})


def _table(frame: pl.DataFrame) -> dg.TableMetadataValue:
    shown = ["rank", "forecaster", "brier", "brier_lower", "brier_upper", "brier_skill", "ece", "accuracy", "coverage", "n"]
    rows = frame.sort("rank", "forecaster", nulls_last=True).select(shown).head(20).with_columns(pl.col(pl.Float64).round(4))
    return dg.MetadataValue.table([dg.TableRecord({k: "" if v is None else v for k, v in row.items()}) for row in rows.to_dicts()])
