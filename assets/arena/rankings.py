"""Comparison of the arena's families (one competitor over the years each): submitted forecasts, rankings with intervals, pairs, equity and
calibration.
"""

from collections.abc import Iterator

import dagster as dg
import polars as pl

from assets.arena.partitions import whole_table
from bellwether.arena.lineup import build_release_rows, load_registered_families
from bellwether.arena.methodology import methodologies
from bellwether.arena.submissions import submissions_frame
from bellwether.errors import BellwetherError
from bellwether.lake import Slice
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.tables.arena_rankings import INPUTS
from orchestration.asset_declarations import FOLLOW_INPUTS, key

RANKING_TABLES = ("arena/rankings", "arena/pairs", "arena/equity_by_day", "arena/equity_by_age", "arena/calibration", "arena/releases")
_READ = tuple(table(f"arena/{name}") for name in INPUTS)


@dg.asset(
    key=["arena", "submissions"],
    group_name="arena",
    kinds={"python"},
    metadata=FOLLOW_INPUTS,
    ins={"universe": dg.AssetIn(key("arena/universe"), partition_mapping=dg.AllPartitionMapping())},
)
def submissions(context: dg.AssetExecutionContext, universe: Slice) -> pl.DataFrame:
    """Store submitted forecasts on markets of a week that were stated before its decisions."""
    try:
        return read_submissions(universe.read())
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def read_submissions(universe: pl.DataFrame) -> pl.DataFrame:
    """Read the submitted forecasts on markets of a universe, as rows of `arena/submissions`. universe: rows of `arena/universe`."""
    from bellwether.submissions import Submissions

    config = settings()
    return submissions_frame(Submissions(config.submissions_path).read(), universe, methodologies(config.registry))


@dg.multi_asset(
    name="rankings",
    group_name="arena",
    outs={
        name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"python"}, metadata=FOLLOW_INPUTS, is_required=False)
        for name in RANKING_TABLES
    },
    ins={source.short_name: whole_table(source) for source in _READ},
    internal_asset_deps={
        name.split("/")[1]: {key("arena/agents")} if name == "arena/releases" else {key(source.name) for source in _READ}
        for name in RANKING_TABLES
    },
    can_subset=True,
)
def rankings(context: dg.AssetExecutionContext, **rows: Slice) -> Iterator[dg.Output]:
    """Compare families within each group. Live, reconstructed and contaminated cohorts are never ranked together."""
    from bellwether.arena.as_known import load_cutoffs
    from bellwether.arena.rankings import RankingInputs
    from bellwether.arena.rankings import compute_rankings as compare

    try:
        inputs = RankingInputs(**{name: part.read() for name, part in rows.items()}, cutoffs=load_cutoffs(settings().registry))
        frames = {**compare(inputs), "arena/releases": build_release_rows(inputs.agents, load_registered_families(settings().registry))}
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    for name in RANKING_TABLES:
        if (output := name.split("/")[1]) in context.op_execution_context.selected_output_names:
            yield dg.Output(frames[name], output)
