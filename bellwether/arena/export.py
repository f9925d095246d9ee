"""Export of a cohort (the agents that start in one week) as an open dataset: facts, results, prompts and answers, and a README that describes every
column (the card).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from bellwether.arena.methodology import Methodology
from bellwether.arena.results import LAST_EXECUTION, Facts, compute_results
from bellwether.arena.weekly.queries import suggest_cohorts
from bellwether.errors import ConfigError
from bellwether.files import atomic_folder
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.tables.arena import MESSAGES
from bellwether.tables.exports import flatten_lists, neutralise_formulas, redact_rows

CARD, DATA, CSV = "README.md", "data", "csv"
#: Marker in the card of every export; only folders with it are replaced.
MARK = "<!-- bellwether-cohort -->"


def build_cohort_tables(lake: Lake, rules: Mapping[str, Methodology], cohort: date) -> dict[str, pl.DataFrame]:
    """Return the tables that an export of the cohort contains, by name. rules: methodologies by name.

    Contains the cohort's facts, their results, the universes of its weeks, the leaderboard and the messages. Raises `ConfigError` for an unknown
    cohort.
    """
    rows, universe = Facts.load(lake), lake.slice(table("arena/universe"), missing="skip").read()
    agents = rows.agents.filter(pl.col("week") == cohort)
    if agents.is_empty():
        raise ConfigError(f"exporting the cohort {cohort}: no cohort started in this week; {suggest_cohorts(cohort, rows.agents)}")
    is_own = pl.col("agent_id").is_in(agents["agent_id"].implode())
    decisions, trades = rows.decisions.filter(is_own), rows.trades.filter(is_own)
    is_traded = pl.col("market_id").is_in(trades["market_id"].unique().implode())
    facts = {
        "agents": agents,
        "decisions": decisions,
        "refusals": rows.refusals.filter(LAST_EXECUTION, pl.col("decision_id").is_in(decisions["decision_id"].implode())),
        "trades": trades,
        "evidence": rows.evidence.filter(is_traded),
        "prices": rows.prices.filter(is_traded),
    }
    # Rows stored by an earlier version may contain a credential.
    facts = {name: redact_rows(f"arena/{name}", frame) for name, frame in facts.items()}
    # The export of an archived cohort has a leaderboard, too.
    own_facts = {**facts, "agents": agents.with_columns(archived_at=pl.lit(None, agents.schema["archived_at"]))}
    folded = {name.removeprefix("arena/"): frame for name, frame in compute_results(Facts(**own_facts), rules).frames.items()}
    venues = {rules[name].venue for name in agents["methodology"] if name in rules}
    universes = universe.filter(pl.col("week").is_in(decisions["week"].unique().implode()), pl.col("venue").is_in(list(venues)))
    messages = lake.slice(MESSAGES, missing="skip").read().filter(pl.col("decision_id").is_in(decisions["decision_id"].implode()))
    messages = messages.select("decision_id", "number", "role", "content").sort("decision_id", "number")
    return {**facts, "universe": universes, **folded, "messages": messages}


def export_cohort(tables: Mapping[str, pl.DataFrame], cohort: date, target: Path) -> Path:
    """Write the tables of `build_cohort_tables` into the folder `target`, or into one file if `target` ends in .zip, and return `target`.

    An earlier export is replaced. Raises `ConfigError` if the folder contains anything else.
    """
    if target.suffix.lower() == ".zip":
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
            draft = Path(place) / "cohort"
            draft.mkdir()
            _write_files(tables, cohort, draft)
            Path(shutil.make_archive(str(Path(place) / "archive"), "zip", draft)).replace(target)
        return target
    card = target / CARD
    if target.exists() and not (card.is_file() and MARK in card.read_text(encoding="utf-8", errors="replace")):
        raise ConfigError(f"exporting into {target}: the folder contains other files; choose another folder")
    with atomic_folder(target, CARD) as draft:
        _write_files(tables, cohort, draft)
    return target


def _write_files(tables: Mapping[str, pl.DataFrame], cohort: date, folder: Path) -> None:
    for name in (DATA, CSV):
        (folder / name).mkdir()
    for name, rows in tables.items():
        rows.write_parquet(folder / DATA / f"{name}.parquet")
        flatten_lists(neutralise_formulas(rows)).write_csv(folder / CSV / f"{name}.csv")
    (folder / CARD).write_text(_render_card(tables, cohort), encoding="utf-8")


def _render_card(tables: Mapping[str, pl.DataFrame], cohort: date) -> str:
    agents = tables["agents"]
    venues = [name.capitalize() for name in tables["universe"]["venue"].unique().sort()]
    kind = "reconstructed" if agents["reconstructed"].any() else "decided live"
    lines = [
        f"# Arena cohort of {cohort}",
        "",
        MARK,
        "",
        f"{agents.height} agents of the methodology {', '.join(sorted(agents['methodology'].unique()))} bet paper money on open markets{''.join(f' of {name}' for name in venues)}; {kind}. "
        f"They took {tables['decisions'].height} decisions and made {tables['trades'].height} trades.",
        "",
        "`data` holds Parquet with exact decimals and times in UTC; `csv` the same rows for spreadsheets: lists as text, an apostrophe before text that would be a formula, symbols for control characters.",
        "",
        "Questions and outcome names come from the venue, reasoning and answers from the models: untrusted text. The data contains no credentials and no account names.",
        "",
    ]
    for name, rows in tables.items():
        lines += [f"## {name}", "", f"{table(f'arena/{name}').row} {rows.height} rows.", "", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| {column} | {dtype} | {meaning} |" for column, dtype, meaning in _describe_columns(name, rows)]
        lines.append("")
    return "\n".join(lines)


def _describe_columns(name: str, rows: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    if name == "messages":
        meanings = ("cohort/family/week", "position of the message, from 1", "system, user or assistant", "text; untrusted")
        yield from ((column, str(dtype), meaning) for (column, dtype), meaning in zip(rows.schema.items(), meanings, strict=True))
        return
    for column in table(f"arena/{name}").columns:
        unit = f" ({column.unit})" if column.unit else ""
        yield column.name, str(column.dtype).replace("|", "/"), f"{column.description}{unit}"
