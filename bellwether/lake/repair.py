"""Advice for error messages on how to restore a lost or damaged partition."""

from __future__ import annotations

from bellwether.lake.partitions import Partition
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE
from bellwether.tables.benchmark import QUESTIONS
from bellwether.tables.history import HISTORY

#: Tables that `bellwether pull` fetches before it pulls days, with the option that they need.
_REFERENCE = {
    "raw/kalshi_series": "",
    "raw/kalshi_series_rejects": "",
    "raw/kalshi_archive": " --archive",
    "raw/kalshi_archive_rejects": " --archive",
}


def describe_repair(table: Table, partition: Partition) -> str:
    """Return advice on restoring a partition, worded as the end of an error message."""
    of = "/".join(partition)
    if table in HISTORY:
        return f"restore the file from a backup, or delete the lake's folder {table.name}: the next publication starts without it"
    if table is QUESTIONS:
        return f"restore the file from a backup: the questions of {of} are not drawn again"
    command = _repair_command(table, partition)
    if command is None:
        return f"materialize {table.name}{f', partition {of},' if of else ''} again in the UI"
    if table.name.startswith("arena/") and partition:
        return f"{command} restores it where the week was reconstructed; otherwise restore the file from a backup"
    return f"{command} restores it"


def describe_repair_by_name(name: str, partition: Partition) -> str:
    """Return advice on restoring a partition. name: of a table that this version of the code may not know."""
    declared = next((table for table in HISTORY if table.name == name), TABLES.get(name))
    return describe_repair(declared, partition) if declared else "materialize that partition again"


def _repair_command(table: Table, partition: Partition) -> str | None:
    """Return the command that rebuilds a partition; None if there is no command for this table."""
    if table.name.startswith("arena/"):
        # The command would start a missing cohort: only tables written with the cohort name its week.
        week = f"{partition[0]}`" if table.partitioned_by == ("week",) and table is not EVIDENCE else "WEEK` of any week that was run"
        return f"`bellwether arena run --week {week}"
    if table.name in _REFERENCE:
        return f"`bellwether pull DAY{_REFERENCE[table.name]}` of any day"
    match table.partitioned_by:
        case ("day",):
            return f"`bellwether pull {partition[0]}`"
        case ("release", *_):
            return f"`bellwether release {' --forecaster '.join(partition)}`"
    return None
