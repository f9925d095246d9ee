"""Leaderboards and audits that commands print after a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from bellwether.console import console, plain_grid
from bellwether.formatting import floor_percent, number
from bellwether.lake.sql import sql_text
from bellwether.lake.warehouse import query
from bellwether.pages.columns import text_table
from bellwether.pages.model import PageTable
from bellwether.settings import settings
from bellwether.site.leaderboard import describe_submitted, leaderboard

if TYPE_CHECKING:
    import polars as pl

#: Contaminated forecasters that are named below a leaderboard.
_CONTAMINATED = 4


def print_leaderboards(releases: Sequence[str]) -> None:
    """Print the published leaderboards of releases."""
    for name in releases:
        lines = query(settings().warehouse_uri, sql_text("site/leaderboard"), {"release": name})
        console().print(leaderboard_table(name, lines.filter(lines["scope"] == "all")))


def print_demo_leaderboard() -> None:
    """Print the leaderboard of the demo's release."""
    from assets.benchmark.runs import DEMO

    print_leaderboards((DEMO,))


def _exclusion_note(frame: pl.DataFrame) -> str:
    """Return a note that names the forecasters with excluded questions; empty if no question is excluded."""
    some = frame.filter(frame["could_know"] > 0).sort("could_know", "forecaster", descending=[True, False])
    if some.is_empty():
        return ""
    most = [f"{row['could_know']} for {row['forecaster']}" for row in some.head(_CONTAMINATED).iter_rows(named=True)]
    others = [f"some for {some.height - _CONTAMINATED} more"] if some.height > _CONTAMINATED else []
    note = f"Excluded questions, whose outcome the model could have known: {', '.join(most + others)}."
    return "".join(f"\n{line}" for line in wrap(note, 80))


def _interval_note(frame: pl.DataFrame) -> str:
    """Return the reasons for missing intervals on a leaderboard, one per line."""
    reasons = Counter(frame.filter(frame["brier"].is_not_null())["brier_reason"].drop_nulls().sort())
    return "".join(f"\nNo interval for {count} of {frame.height}: {reason}." for reason, count in reasons.items())


def leaderboard_table(release: str, lines: pl.DataFrame) -> Group:
    """Format a leaderboard as a table 80 characters wide: the leading columns of the site's. lines: of `sql/site/leaderboard.sql`."""
    table = leaderboard(release, lines)
    assert isinstance(table, PageTable)  # a published release has forecasters
    meaning = (
        f"{max(lines['n_questions'])} questions. Brier score: lower is better. Forecasters that share a letter do not differ significantly. Gain: 1 - "
        "Brier score / that of the market's price at the same time; missing where fewer than three clusters have a price that differs from the forecast. –: not ranked, as too few questions count."
    )
    submitted = "".join(f"\n{line}" for line in wrap(describe_submitted(lines) or "", 80))
    explained = "\n".join(wrap(meaning, 80)) + _interval_note(lines) + _exclusion_note(lines) + submitted
    return Group(text_table(table), Text(f"\n{explained}", style="dim"))


def _format_short(value: float | None, digits: int) -> str:
    """Format a number. If it is between -1 and 1, the zero before the point is left out."""
    return number(value, digits, none="").removeprefix("0").replace("-0.", "-.")


def _format_interval(row: dict[str, Any], metric: str) -> str:
    if row[metric] is None or row[f"{metric}_lower"] is None:
        return _format_short(row[metric], 3)
    lower, upper = (_format_short(row[f"{metric}_{end}"], 3) for end in ("lower", "upper"))
    return f"{_format_short(row[metric], 3)} [{lower}, {upper}]"


def print_audit(release: str) -> None:
    """Print the published audit of a release: the number of leaking questions by kind, and each forecaster's scores with and without leaks."""
    warehouse, chosen = settings().warehouse_uri, {"release": release}
    size = query(warehouse, "SELECT count(*) FROM benchmark.questions WHERE release = $release", chosen).item()
    sql = "SELECT kind, count(DISTINCT question_id) FROM benchmark.leaks WHERE release = $release GROUP BY kind ORDER BY kind"
    kinds = query(warehouse, sql, chosen).rows()
    scores = query(warehouse, "FROM benchmark.leak_scores WHERE release = $release ORDER BY forecaster, part", chosen)
    console().print(audit_table(release, size, kinds, scores))
    _print_withheld(warehouse, release)


def _print_withheld(warehouse: str, release: str) -> None:
    """Print how many results of search services were withheld from the forecasts of a release, by reason."""
    from bellwether.questions.leaks import open_searches

    sql = "SELECT DISTINCT forecaster, as_of FROM benchmark.forecasts WHERE release = $release AND as_of IS NOT NULL"
    dated = query(warehouse, sql, {"release": release})
    with open_searches(dated["forecaster"].unique()) as searches:
        for service, results in searches.items():
            counts = results.count_withheld(dated["as_of"])
            console().print(f"Results of {service}: {', '.join(f'{reason} {count}' for reason, count in counts.items()) or 'none'}.")


def audit_table(release: str, size: int, kinds: Sequence[tuple[str, int]], scores: pl.DataFrame) -> Group:
    """Format an audit as a table 80 characters wide. size: number of questions. kinds: number of leaking ones by kind. scores: benchmark/leak_scores."""
    columns = ("forecaster", "Brier [95 %]", "no leak", "sibl.", "docs", "jump [95 %]")
    table = plain_grid(Text(f"{release}: {size} questions"), columns, ("forecaster",))
    for (name,), rows in scores.group_by("forecaster", maintain_order=True):
        parts = {row["part"]: row for row in rows.iter_rows(named=True)}
        shares = [floor_percent(parts[kind]["share"] or 0.0) if kind in parts else "" for kind in ("sibling", "document")]
        without = _format_short(parts["no leak"]["brier"], 3) if "no leak" in parts else ""
        table.add_row(Text(str(name)), _format_bounds(parts.get("all")), without, *shares, _format_bounds(parts.get("jump")))
    leaks = ", ".join(f"{kind} {count}" for kind, count in kinds) or "none"
    explained = (
        "\n".join(wrap(f"Questions with a leak, by kind: {leaks}.", 80)) + "\n"
        "no leak: Brier score without questions with a leak. sibl., docs: share of scored\n"
        "questions with a sibling in the release, and with a document that states the\n"
        "outcome; blank: no corpus was searched. jump: of the Brier score at the\n"
        "knowledge cutoff; above 0 the forecaster may know outcomes from before it."
    )
    return Group(table, Text(f"\n{explained}", style="dim"))


def _format_bounds(row: dict[str, Any] | None) -> str:
    """Format a row of benchmark/leak_scores."""
    return (
        "" if row is None else _format_interval({"brier": row["brier"], "brier_lower": row["lower"], "brier_upper": row["upper"]}, "brier")
    )
