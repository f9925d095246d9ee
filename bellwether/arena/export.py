"""A cohort as an open dataset: its facts and what follows from them, prompts and answers, a card, and the query that gives its leaderboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from bellwether.arena.methodology import Methodology
from bellwether.arena.records import Intent, Plan, messages_of, stored
from bellwether.arena.results import LAST_EXECUTION, Facts, results
from bellwether.errors import ConfigError
from bellwether.files import atomic_folder
from bellwether.journal import Journal
from bellwether.journal.records import Records
from bellwether.lake import Lake
from bellwether.lake.sql import sql_text
from bellwether.tables import table
from bellwether.tables.exports import flat, neutralised, redacted

CARD, QUERY, DATA, CSV = "README.md", "leaderboard.sql", "data", "csv"
#: What every card of ours holds, so that only an earlier export is replaced.
MARK = "<!-- bellwether-cohort -->"
_LEASE = timedelta(minutes=1)
_MESSAGES = {"decision_id": pl.String(), "number": pl.Int32(), "role": pl.String(), "content": pl.String()}


def cohort_tables(lake: Lake, rules: Mapping[str, Methodology], cohort: date, journal: Journal | None = None) -> dict[str, pl.DataFrame]:
    """The tables of an export by name, in the order of their rows.

    The facts of the cohort, what one fold makes of them, the universes of its weeks, the leaderboard, and with a journal the messages: prompts and answers of
    every decision. Raises `ConfigError` for an unknown cohort.
    """
    rows, universe = Facts.stored(lake), lake.slice(table("arena/universe"), missing="skip").read()
    agents = rows.agents.filter(pl.col("week") == cohort)
    if agents.is_empty():
        raise ConfigError(f"exporting the cohort {cohort}: no cohort started in this week; `bellwether arena status` lists them")
    own = pl.col("agent_id").is_in(agents["agent_id"].implode())
    decisions, trades = rows.decisions.filter(own), rows.trades.filter(own)
    market = pl.col("market_id").is_in(trades["market_id"].unique().implode())
    facts = {
        "agents": agents,
        "decisions": decisions,
        "refusals": rows.refusals.filter(LAST_EXECUTION, pl.col("decision_id").is_in(decisions["decision_id"].implode())),
        "trades": trades,
        "evidence": rows.evidence.filter(market),
        "prices": rows.prices.filter(market),
    }
    # Rows that an earlier version stored may quote a key.
    facts = {name: redacted(f"arena/{name}", frame) for name, frame in facts.items()}
    # An archived cohort has a leaderboard of its own too.
    own_facts = {**facts, "agents": agents.with_columns(archived_at=pl.lit(None, agents.schema["archived_at"]))}
    folded = {name.removeprefix("arena/"): frame for name, frame in results(Facts(**own_facts), rules).frames.items()}
    venues = {rules[name].venue for name in agents["methodology"] if name in rules}
    of_weeks = universe.filter(pl.col("week").is_in(decisions["week"].unique().implode()), pl.col("venue").is_in(list(venues)))
    found = {**facts, "universe": of_weeks, **folded}
    if journal is not None:
        found["messages"] = pl.DataFrame(list(_messages(journal, decisions)), schema=_MESSAGES, orient="row")
    return found


def export_cohort(tables: Mapping[str, pl.DataFrame], cohort: date, target: Path) -> Path:
    """Write an export into the folder `target`, or, where it ends in .zip, into one file; returns it.

    An earlier export is replaced. Raises `ConfigError` for a folder of something else.
    """
    if target.suffix.lower() == ".zip":
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
            draft = Path(place) / "cohort"
            draft.mkdir()
            _write(tables, cohort, draft)
            Path(shutil.make_archive(str(Path(place) / "archive"), "zip", draft)).replace(target)
        return target
    card = target / CARD
    if target.exists() and not (card.is_file() and MARK in card.read_text(encoding="utf-8", errors="replace")):
        raise ConfigError(f"exporting into {target}: there is something else; name another folder")
    with atomic_folder(target, CARD) as draft:
        _write(tables, cohort, draft)
    return target


def _write(tables: Mapping[str, pl.DataFrame], cohort: date, folder: Path) -> None:
    for name in (DATA, CSV):
        (folder / name).mkdir()
    for name, rows in tables.items():
        rows.write_parquet(folder / DATA / f"{name}.parquet")
        flat(neutralised(rows)).write_csv(folder / CSV / f"{name}.csv")
    (folder / QUERY).write_text(sql_text("export/arena_leaderboard"), encoding="utf-8")
    (folder / CARD).write_text(_card(tables, cohort), encoding="utf-8")


def _messages(journal: Journal, decisions: pl.DataFrame) -> Iterator[tuple[str, int, str, str]]:
    """Prompts and answers of decisions in their order, without credentials."""
    records = Records(journal, _LEASE, run="export")
    for name in decisions["decision_id"].sort():
        for number, role, content in messages_of(journal, stored(records, Plan, name), stored(records, Intent, name)):
            yield name, number, role, content


def _card(tables: Mapping[str, pl.DataFrame], cohort: date) -> str:
    agents = tables["agents"]
    venues = [name.capitalize() for name in tables["universe"]["venue"].unique().sort()]
    kind = "reconstructed afterwards, as of its time" if agents["reconstructed"].any() else "decided live"
    lines = [
        f"# Arena cohort of {cohort}",
        "",
        MARK,
        "",
        f"{agents.height} agents of the methodology {', '.join(sorted(agents['methodology'].unique()))} bet paper money on open markets{''.join(f' of {name}' for name in venues)}; {kind}. "
        f"They took {tables['decisions'].height} decisions and made {tables['trades'].height} trades.",
        "",
        f'`{QUERY}` gives the leaderboard from the tables of facts: `duckdb -c ".read {QUERY}"` in this folder. `data` holds Parquet with exact decimals and times in UTC; `csv` the '
        "same rows for spreadsheets, lists as texts, with an apostrophe before a text that would be a formula and signs for control characters.",
        "",
        "Questions and names of outcomes are the venue's words, reasoning and answers the models': untrusted text. No key and no account is in the data.",
        "",
    ]
    for name, rows in tables.items():
        lines += [f"## {name}", "", f"{_row_of(name)} {rows.height} rows.", "", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| {column} | {dtype} | {meaning} |" for column, dtype, meaning in _columns(name, rows)]
        lines.append("")
    return "\n".join(lines)


def _row_of(name: str) -> str:
    return (
        "One message of a decision: a part of its prompt, or an answer of the model." if name == "messages" else table(f"arena/{name}").row
    )


def _columns(name: str, rows: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    if name == "messages":
        meanings = ("cohort/family/week", "order of the messages, from 1", "system, user or assistant", "the text; untrusted")
        yield from ((column, str(dtype), meaning) for (column, dtype), meaning in zip(rows.schema.items(), meanings, strict=True))
        return
    for column in table(f"arena/{name}").columns:
        unit = f" ({column.unit})" if column.unit else ""
        yield column.name, str(column.dtype).replace("|", "/"), f"{column.description}{unit}"
