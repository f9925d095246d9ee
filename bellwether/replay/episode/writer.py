"""Writing of an episode's folder: atomically, after the same checks as reading, and with the same bytes for the same content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from bellwether.errors import ConfigError
from bellwether.files import atomic_folder
from bellwether.places import place
from bellwether.replay.episode.checks import Report, check_content, check_rows, check_trade_rows
from bellwether.replay.episode.content import EXOGENOUS, ORDERBOOK, TRADES, Content
from bellwether.replay.episode.model import METADATA, SETTLEMENT, dump_metadata, dump_settlements
from bellwether.replay.episode.reader import Episode

_ROW_GROUP = 262_144


def write(folder: Path, content: Content) -> Episode:
    """Write content as the episode in `folder`, replacing an episode that is there. Returns the written episode.

    Raises `SchemaError` as `load` does, and `ConfigError` for a folder with other content; nothing is written then.
    """
    folder, metadata = place(folder), content.metadata
    if folder.exists() and not (folder / METADATA).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"writing the episode {metadata.episode_id}: {folder} contains something other than an episode; name another folder"
        )
    check_rows(content.book, metadata)
    check_trade_rows(content.trades, metadata)
    report = Report(metadata.episode_id)
    check_content(content, None, report)
    report.require_valid()
    assert report.digest is not None
    tables = {ORDERBOOK: content.book.table(), TRADES: content.trades.table()}
    if metadata.exogenous:
        tables[EXOGENOUS] = content.exogenous_table()
    with atomic_folder(folder, METADATA) as new:
        for name, table in tables.items():
            pq.write_table(table, new / name, compression="zstd", use_dictionary=False, row_group_size=_ROW_GROUP, store_schema=True)
        _write_json(new / SETTLEMENT, dump_settlements(content.settlements))
        _write_json(new / METADATA, dump_metadata(metadata, report.digest))
    return Episode(folder, content, report.digest, tuple(finding.message for finding in report.warnings))


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
