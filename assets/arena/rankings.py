"""How families compare: rankings with intervals, pairs, equity and calibration, from the books and the facts that they were folded from."""

from collections.abc import Iterator

import dagster as dg

from bellwether.errors import BellwetherError
from bellwether.lake import Slice
from bellwether.settings import settings
from orchestration.automation import FOLLOW_ANY
from orchestration.declare import key, out

RANKING_TABLES = ("arena/rankings", "arena/pairs", "arena/equity_by_day", "arena/equity_by_age", "arena/calibration")
_BY_WEEK = ("arena/agents", "arena/decisions", "arena/universe", "arena/trades", "arena/prices")
_WHOLE = ("arena/ledger", "arena/positions", "arena/portfolios", "arena/scores")


@dg.multi_asset(
    name="rankings",
    outs={name.split("/")[1]: out(name, "python", follows=FOLLOW_ANY) for name in RANKING_TABLES},
    ins={
        **{name.split("/")[1]: dg.AssetIn(key(name), partition_mapping=dg.AllPartitionMapping()) for name in _BY_WEEK},
        **{name.split("/")[1]: dg.AssetIn(key(name)) for name in _WHOLE},
    },
)
def rankings(context: dg.AssetExecutionContext, **rows: Slice) -> Iterator[dg.Output]:
    """How families compare, a group at a time: live, reconstructed and contaminated cohorts are never in one ranking."""
    from bellwether.arena.rankings import Inputs
    from bellwether.arena.rankings import rankings as compare
    from bellwether.arena.rankings.reading import cutoffs

    try:
        found = compare(Inputs(**{name: one.read() for name, one in rows.items()}, cutoffs=cutoffs(settings().registry)))
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    for name in RANKING_TABLES:
        yield dg.Output(found[name], name.split("/")[1])
