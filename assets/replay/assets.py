"""Assets of replay: episodes (books, trades and settlement of one recorded event), backtests of agents in them, and the comparison of agents."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl
from pydantic import Field

from assets.benchmark.partitions import is_new
from bellwether.errors import BellwetherError
from bellwether.lake import Lake, Manifest, Slice
from bellwether.lake.partitions import Partition
from bellwether.lake.sql import run_sql
from bellwether.replay.units import MILLISECOND, SECOND
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.asset_declarations import FOLLOW_INPUTS, UpdatePolicy, key
from orchestration.partitions import ALL_DAYS, INDEPENDENT, from_key
from orchestration.steps import PartitionRows, StepOutput, make_each
from resources import LakeIOManager, LakeResource, ModelsResource
from resources.models import limits, payer
from resources.recordings import EpisodesResource, RecordingsResource

if TYPE_CHECKING:
    from bellwether.replay.backtest import Backtest
    from bellwether.replay.registry import RegisteredAgent
    from bellwether.replay.settings import BacktestSettings

EPISODE = dg.DynamicPartitionsDefinition(name="episode")
AGENT = dg.DynamicPartitionsDefinition(name="agent")
EPISODE_AGENT = dg.MultiPartitionsDefinition({"episode": EPISODE, "agent": AGENT})


def stored_episodes() -> list[str]:
    """List the episodes in the lake; a restored home has them before Dagster knows their partitions."""
    return [name for (name,) in Lake.of(settings()).manifests(table("replay/episodes"))]


def automatic(episodes: Mapping[Partition, Manifest]) -> list[Partition]:
    """List the pairs of episode and agent that run automatically: those of free agents, and on new episodes also of agents whose model is in the
    settings.
    """
    from bellwether.replay.registry import competitors

    paid = {name for name, entry in competitors().items() if entry.language_model in settings().models}
    return [(episode, name) for (episode,), manifest in episodes.items() for name in competitors() if is_new(manifest) or name not in paid]


BACKTEST_TABLES = ("replay/backtests", "replay/orders", "replay/fills", "replay/equity", "replay/market_pnl")
#: A failed backtest is not retried for the same episode: its model may cost money.
ONCE = UpdatePolicy(attempts=1, candidates="assets.replay.assets:automatic").metadata()
#: Recordings, and pulled data of their markets.
SOURCES = ("recordings", "kalshi_markets", "kalshi_archive", "kalshi_events", "kalshi_series")


class EpisodeConfig(dg.Config):
    """Facts of an episode that neither its recording nor the pulled data contains."""

    results: dict[str, str] = Field(default_factory=dict)
    """Results of markets by ticker: yes, no, void or the payout of YES in dollars. They take precedence over recorded and pulled ones."""
    infer_results: bool = False
    """Infer a missing result from the last trade, if its price is at least 0.99 or at most 0.01."""
    fee: str | None = None
    """Fees of the markets, TYPE or TYPE:MULTIPLIER, such as quadratic_with_maker_fees; the pulled ones when left out."""


class BacktestConfig(dg.Config):
    """Configuration of a backtest."""

    rules: str | None = None
    """Rule set; when left out that of the episode, or else of the venue on its first day."""
    cadence_seconds: float | None = None
    """Time between two decisions; the agent's own when left out."""
    queue: str | None = None
    """Queue model, such as `proportional:3`; when left out that of the rule set."""
    queues: int | None = None
    """Number of sampled queue histories; when left out 20 for agents that ship with Bellwether and compiled ones, else 0."""
    order_latency_ms: float = 0.0
    """Time from a decision to the arrival of its orders."""
    data_latency_ms: float = 0.0
    """Age of the market data that a decision sees."""
    taker_only: bool = False
    """Orders never rest."""
    seed: int = 0
    """Seed of the agent."""
    dollars: float | None = None
    """Budget of a language model in dollars; BELLWETHER_BUDGET when left out."""


@dg.asset(
    key=["replay", "episodes"],
    group_name="replay",
    deps=[dg.AssetDep(key(f"raw/{name}"), partition_mapping=ALL_DAYS) for name in SOURCES],
    partitions_def=EPISODE,
    backfill_policy=INDEPENDENT,
)
def episodes(  # noqa: PLR0917 - Dagster passes resources by name
    context: dg.AssetExecutionContext,
    config: EpisodeConfig,
    lake: LakeResource,
    recordings: RecordingsResource,
    store: EpisodesResource,
    io_manager: dg.ResourceParam[LakeIOManager],
) -> Iterator[StepOutput]:
    """Build episodes from recordings."""

    def make(name: str) -> PartitionRows:
        rows, metadata = _build_episode(name, config, lake.lake, recordings, store)
        return {"replay/episodes": rows}, {"replay/episodes": metadata}

    yield from make_each(context, io_manager, ("replay/episodes",), make)


def _build_episode(
    name: str, config: EpisodeConfig, lake: Lake, recordings: RecordingsResource, store: EpisodesResource
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Build one episode and write its folder. Returns its row and its metadata."""
    from bellwether.replay.episode.folder import write
    from bellwether.replay.episode_builder.build import Outcomes, build, frames_of_table
    from bellwether.replay.episode_builder.listings import load_listings, parse_fee, parse_results
    from bellwether.replay.episode_builder.sources import Sources, episode_rows

    recording, event = recordings.find_episode(name)
    sources = Sources.of(lake, recording.name)
    stored = lake.slice(table("raw/recordings"), [(recording.name,)]).scan()
    listings = load_listings(lake, recording.about.tickers, None if config.fee is None else parse_fee(config.fee))
    outcomes = Outcomes(parse_results(f"{ticker}={result}" for ticker, result in config.results.items()), config.infer_results)
    drafts = build(recording.name, recording.about, lambda: frames_of_table(stored.collect_batches()), known=listings, outcomes=outcomes)
    draft = next((draft for draft in drafts if draft.metadata.episode_id == name), None)
    if draft is None:
        raise BellwetherError(f"making the episode {name}: the recording {recording.name} contains no book of {event}")
    written = write(store.root / name, draft)
    rows = episode_rows(written, sources)
    return rows, _episode_metadata(rows) | {"folder": dg.MetadataValue.path(str(written.folder))}


@dg.asset(
    key=["replay", "books"],
    group_name="replay",
    kinds={"numba"},
    metadata=FOLLOW_INPUTS,
    ins={"episodes": dg.AssetIn(key("replay/episodes"))},
    partitions_def=EPISODE,
    backfill_policy=INDEPENDENT,
)
def books(
    context: dg.AssetExecutionContext, episodes: Slice, store: EpisodesResource, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Sample the top of all books of an episode over time."""
    from bellwether.replay import prepare
    from bellwether.replay.results.books import books as rows_of

    def make(name: str) -> PartitionRows:
        known_at = episodes.restrict([(name,)]).read()["known_at"].to_list()[0]
        rows = rows_of(prepare(store.load(name)).tape, name, known_at)
        return {"replay/books": rows}, {"replay/books": {"markets": rows["ticker"].n_unique(), "instants": rows["at"].n_unique()}}

    yield from make_each(context, io_manager, ("replay/books",), make)


def _episode_metadata(rows: pl.DataFrame) -> dict[str, Any]:
    """Build the metadata of an episode: counts, duration and warnings."""
    first = rows.row(0, named=True)
    return {
        "markets": rows.height,
        "book rows": int(rows["book_rows"].sum()),
        "trades": int(rows["trades"].sum()),
        "gaps": int(rows["gaps"].sum()),
        "unsettled markets": rows["result"].null_count(),
        "hours": round((first["end_at"] - first["start_at"]).total_seconds() / 3600, 2),
        **({"warnings": dg.MetadataValue.md("\n".join(f"- `{text}`" for text in first["warnings"]))} if first["warnings"] else {}),
    }


@dg.multi_asset(
    name="backtest",
    group_name="replay",
    outs={
        name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"numba"}, metadata=ONCE, is_required=False) for name in BACKTEST_TABLES
    },
    ins={"episodes": dg.AssetIn(key("replay/episodes"))},
    partitions_def=EPISODE_AGENT,
    backfill_policy=INDEPENDENT,
    # A run of one table stores all of them, which belong together.
    can_subset=True,
)
def backtest(  # noqa: PLR0917 - Dagster passes inputs by name
    context: dg.AssetExecutionContext,
    config: BacktestConfig,
    episodes: Slice,
    store: EpisodesResource,
    models: ModelsResource,
    io_manager: dg.ResourceParam[LakeIOManager],
) -> Iterator[StepOutput]:
    """Backtest an agent in an episode."""
    from bellwether.replay import run
    from bellwether.replay.registry import find_agent
    from bellwether.replay.results.frames import frames

    def make(pair: str) -> PartitionRows:
        episode, name = from_key(table("replay/backtests"), pair)
        entry = find_agent(name)
        agent = entry.source() if entry.language_model is None else entry.source().make()
        if entry.language_model is not None:
            from bellwether.replay.agents.llm import LLMAgent

            if isinstance(agent, LLMAgent):
                agent.models = models.of_run(payer(context.run), limits(config.dollars))
        backtest = run(store.load(episode), agent, _backtest_settings(config, entry), isolated=entry.isolated)
        rows = frames(backtest, known_at=episodes.restrict([(episode,)]).read()["known_at"].to_list()[0])
        return rows, _backtest_metadata(backtest, rows)

    yield from make_each(context, io_manager, BACKTEST_TABLES, make)


def _backtest_settings(config: BacktestConfig, entry: "RegisteredAgent") -> "BacktestSettings":
    from bellwether.replay.settings import BacktestSettings

    cadence = entry.cadence if config.cadence_seconds is None else round(config.cadence_seconds * SECOND)
    options: dict[str, Any] = {} if cadence is None else {"cadence": cadence}
    return BacktestSettings(
        rules=config.rules,
        queue=config.queue,
        queues=config.queues,
        order_latency=round(config.order_latency_ms * MILLISECOND),
        data_latency=round(config.data_latency_ms * MILLISECOND),
        execution="taker_only" if config.taker_only else None,
        seed=config.seed,
        **options,
    )


def _backtest_metadata(backtest: "Backtest", rows: dict[str, pl.DataFrame]) -> dict[str, dict[str, Any]]:
    """Build the metadata of a backtest: P&L with that of sampled queues, and counts."""
    row = rows["replay/backtests"].row(0, named=True)
    numbers = {
        "P&L": float(row["pnl"]),
        **({"P&L, median of sampled queues": float(row["queue_pnl_median"])} if row["queues"] else {}),
        "fees": float(row["fees"]),
        "contracts": float(row["contracts"]),
        "orders": row["orders"],
        "rules": row["rules"],
        **({"failure": row["failure"]} if row["failure"] else {}),
    }
    return {"replay/backtests": numbers}


@dg.asset(key=["replay", "summary"], group_name="replay", metadata=FOLLOW_INPUTS, ins={"backtests": dg.AssetIn(key("replay/backtests"))})
def summary(backtests: Slice) -> dg.MaterializeResult[pl.DataFrame]:
    """Compare the agents over all episodes in which they traded."""
    rows = backtests.read()
    compared = run_sql(table("replay/summary"), {"backtests": rows})
    return dg.MaterializeResult(value=compared, metadata=_summary_metadata(compared, rows))


def _summary_metadata(summary: pl.DataFrame, backtests: pl.DataFrame) -> dict[str, Any]:
    """Build the metadata of the comparison of agents: totals, and P&L per agent."""
    return {
        "agents": summary.height,
        "backtests": backtests.height,
        "P&L of all": float(summary["pnl"].sum()),
        "fees of all": float(summary["fees"].sum()),
        **{f"P&L of {row['agent']} ({row['rules']})": float(row["pnl"]) for row in summary.iter_rows(named=True)},
    }
