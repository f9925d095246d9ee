"""Reads backtests from folders that `bellwether backtest --out` wrote: one Parquet file per table."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bellwether.errors import ConfigError, LakeError, SchemaError
from bellwether.tables import Table
from bellwether.tables.replay import BACKTESTS

#: What makes a backtest one; two rows with all of these need another folder.
_ONE = ("agent", "rules", "episode")


def read_frame(folder: Path, declared: Table) -> pl.DataFrame:
    """All rows of one table in a folder and the folders below it; none where no file is.

    Raises `LakeError` for a file that cannot be read, `SchemaError` for one that holds another table.
    """
    parts = [declared.empty()]
    for path in sorted(folder.rglob(f"{declared.short_name}.parquet")):
        try:
            parts.append(declared.validate(pl.read_parquet(path), unique=False))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise LakeError(f"reading backtests: {path} is no Parquet file that can be read ({error}); run the backtest again") from error
        except SchemaError as error:
            raise SchemaError(f"reading {path}: {error}") from error
    return pl.concat(parts)


def read_backtests(folder: Path) -> pl.DataFrame:
    """Rows of replay/backtests in a folder and the folders below it, one per agent, rule set and episode; equal copies count once.

    Raises `ConfigError` for a folder without any, and if two backtests of an agent in an episode differ.
    """
    if not folder.is_dir():
        raise ConfigError(f"reading backtests: there is no folder {folder}; `bellwether backtest --out {folder}` makes one")
    found = read_frame(folder, BACKTESTS)
    if found.is_empty():
        raise ConfigError(
            f"reading backtests: {folder} holds no {BACKTESTS.short_name}.parquet; `bellwether backtest --out {folder}` writes one"
        )
    once = found.unique((*_ONE, "settings_digest", "episode_digest", "result_digest"), keep="first", maintain_order=True)
    twice = once.filter(once.select(_ONE).is_duplicated())
    if twice.height:
        agent, rules, episode = twice.select(_ONE).row(0)
        raise ConfigError(
            f"reading backtests: {folder} holds different backtests of {agent} in {episode} under {rules}; keep those of other settings in "
            "another folder"
        )
    return once
