"""What restores a partition that is lost or damaged."""

from __future__ import annotations

from bellwether.lake.partitions import Partition
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE
from bellwether.tables.arena_lineups import REVIEW
from bellwether.tables.benchmark import QUESTIONS
from bellwether.tables.replay import is_portfolio

#: Tables that `bellwether pull` fetches before it pulls days, with the option that they need.
_REFERENCE = {
    "raw/kalshi_series": "",
    "raw/kalshi_series_rejects": "",
    "raw/kalshi_archive": " --archive",
    "raw/kalshi_archive_rejects": " --archive",
}


def remedy(table: Table, partition: Partition) -> str:
    """What restores a partition of a table: the end of an error about it."""
    of = "/".join(partition)
    if table is QUESTIONS:
        return f"put the file back from a backup: the questions of {of} are not drawn again"
    command = _command(table, partition)
    if command is None:
        return f"materialize {table.name}{f', partition {of},' if of else ''} again in the UI"
    if table.name.startswith("arena/") and partition:
        return f"{command} restores it where the week was reconstructed; otherwise put the file back from a backup"
    return f"{command} restores it"


def remedy_of(name: str, partition: Partition) -> str:
    """`remedy` of a table by its name, which may be one that this version does not know."""
    return remedy(TABLES[name], partition) if name in TABLES else "materialize that partition again"


def _command(table: Table, partition: Partition) -> str | None:
    if table.name.startswith("arena/"):
        # The command starts the cohort of a week that has none: only what is made with a cohort names its week.
        week = f"{partition[0]}`" if table.partitioned_by == ("week",) and table is not EVIDENCE else "WEEK` of any week that was run"
        return None if table is REVIEW else f"`bellwether arena run --week {week}"
    if table.name in _REFERENCE:
        return f"`bellwether pull DAY{_REFERENCE[table.name]}` of any day"
    match table.partitioned_by:
        case ("day",):
            return f"`bellwether pull {partition[0]}`"
        case ("release", *_):
            return f"`bellwether release {' --forecaster '.join(partition)}`"
        case ("episode", "agent") if is_portfolio(partition[0]):
            return "`bellwether backtest --portfolio --lake` with the same agent and episodes"
    return None
