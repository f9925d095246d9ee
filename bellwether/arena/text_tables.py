"""Text tables of the arena for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.arena.rankings.estimates import RELATIVE, leading_metrics
from bellwether.console import TextTable
from bellwether.formatting import rank
from bellwether.tables.arena_rankings import GROUP

if TYPE_CHECKING:
    from rich.console import RenderableType


STATUS_NOTE = (
    "past: reconstructed. made, inv., left: decisions with a usable answer, with an unusable answer, and without a final state. ref.: "
    "refused legs. open: positions. "
    "done: the cohort is complete."
)


def status_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Select and rename the columns of `query_week_status` for the terminal. With built-in names the table is at most 80 characters wide."""
    return rows.select(
        "week",
        "lineup",
        pl.col("methodology").alias("method"),
        yes_column("reconstructed").alias("past"),
        pl.col("markets").alias("mkts"),
        pl.col("finished").alias("made"),
        pl.col("invalid").alias("inv."),
        pl.col("unfinished").alias("left"),
        "trades",
        pl.col("refused").alias("ref."),
        pl.col("open_positions").alias("open"),
        pl.col("cost").round(2).cast(pl.Decimal(scale=2)).alias("cost"),
        yes_column("complete").alias("done"),
    )


def agent_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Select and rename the columns of `query_cohort` for the terminal, with money in whole cents."""
    cents = [pl.col(name).round(2).cast(pl.Decimal(scale=2)) for name in ("total", "profit")]
    closed = [yes_column("closed")] if rows["closed"].any() else []
    return rows.select(
        "family",
        "model",
        *closed,
        *cents,
        pl.col("refused").alias("ref."),
        pl.col("scored").alias("n"),
        pl.col("brier_stated").round(3).alias("stated"),
        pl.col("won").round(2),
    )


def yes_column(name: str) -> pl.Expr:
    """Return an expression that shows a boolean column as "yes" or "no"."""
    return pl.when(name).then(pl.lit("yes")).when(pl.col(name).not_()).then(pl.lit("no")).alias(name)


#: Columns of a decision that its explanation states.
_STATED = ("state", "reason", "cash", "planned_at", "model", "prompt_version", "prompt_hash", "attempts", "cost")


def render_explanation(explanation: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, str]]:
    """Yield a decision and its messages as (title, text). explanation: from `explain_decision`."""
    decision = explanation["decision"].row(0, named=True)
    yield "Decision", "\n".join(f"{name}: {decision[name]}" for name in _STATED if decision[name] is not None)
    for role, content in explanation["messages"].select("role", "content").iter_rows():
        yield role, content[:20_000] or "(empty)"
    invalid = f"INVALID: {decision['problem']}: {decision['message']}"
    yield "Read as", "nothing yet" if decision["action"] is None else decision["decision"] if decision["problem"] is None else invalid


#: Head and note of a metric in the terminal.
_HEADS = {
    RELATIVE: (
        "vs price",
        "Brier score of stated probabilities minus that of the price on the same bets; below 0 is better than the market",
    ),
    "return": ("return", "profit per dollar of initial cash"),
    "brier_size": ("size", "Brier score of the confidence that bet sizes imply; 0 is perfect"),
    "brier_stated": ("stated", "Brier score of stated probabilities; 0 is perfect"),
    "brier_price": ("price", "Brier score of the prices paid"),
    "skill_price": ("skill", "1 - stated / price"),
}
_STANDINGS_NOTE = "Brackets: 95 % intervals; parentheses: range over cohorts. grp: families that share a letter do not differ significantly (5 %, Holm). baseline: states the market's price, unranked."


def render_standings(rows: pl.DataFrame, primary: Mapping[str, Sequence[str]]) -> Iterator[RenderableType]:
    """Yield for each ranking group a table of standings, its leader, and the reasons for missing ranks and intervals.

    The first of `leading_metrics` determines the order. rows: rows of arena/rankings. primary: primary metrics by methodology.
    """
    for key, part in sorted(rows.partition_by(GROUP, as_dict=True).items()):
        metrics = leading_metrics(part, primary.get(str(key[0]), ()))
        shown = list(dict.fromkeys([*metrics, "brier_size"]))
        yield from _render_group(key, part, shown)


def _render_group(key: tuple[Any, ...], part: pl.DataFrame, shown: Sequence[str]) -> Iterator[RenderableType]:
    """Yield the standings of one group. shown: metrics of the columns, the ranking one first."""
    families: dict[str, dict[str, dict[str, Any]]] = {}
    for row in part.iter_rows(named=True):
        families.setdefault(row["family"], {})[row["metric"]] = row
    main = {name: metrics[shown[0]] for name, metrics in families.items()}
    ranks = [row["rank"] for row in main.values()]
    heads = [_HEADS.get(name, (name, ""))[0] for name in shown]
    table = TextTable(_format_title(key), ("family", "rank", *heads, "grp"))
    for name in sorted(families, key=lambda family: (main[family]["rank"] or len(families) + 1, not main[family]["baseline"], family)):
        place = "baseline" if main[name]["baseline"] else rank(main[name]["rank"], ranks)
        cells = (_format_metric(families[name][metric], intervals=index < _INTERVALS) for index, metric in enumerate(shown))
        table.add(name, place, *cells, main[name]["letters"] or "–")
    yield table
    leaders = [name for name in sorted(families) if main[name]["rank"] == 1]
    yield f"{state_leader(leaders)} Ranked by {heads[0]}.{_qualify_lead([main[name] for name in leaders])}"
    yield " ".join([*(f"{_HEADS[name][0]}: {_HEADS[name][1]}." for name in shown if name in _HEADS), _STANDINGS_NOTE])
    yield from (
        f"{name}: not ranked, {row['unranked_because']}"
        for name, row in sorted(main.items())
        if row["rank"] is None and not row["baseline"]
    )
    yield from (
        f"{name}: no interval, {row['reason']}"
        for name, row in sorted(main.items())
        if row["reason"] is not None and row["rank"] is not None
    )


#: Minimum of a share that is shown as a whole percent.
_WHOLE = 0.0995
#: Number of columns that show intervals.
_INTERVALS = 2


def state_leader(leaders: Sequence[str]) -> str:
    """Return a sentence that names the leader, the tied leaders, or the absence of a leader."""
    if not leaders:
        return "No leader: no family is ranked."
    return f"Leader: {leaders[0]}." if len(leaders) == 1 else f"No single leader: {', '.join(leaders)} tie."


def _qualify_lead(leaders: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence if the only leader is not significantly better than the price."""
    if len(leaders) != 1 or leaders[0]["metric"] != RELATIVE or (leaders[0]["upper"] is not None and leaders[0]["upper"] < 0):
        return ""
    return " It is not significantly better than the price."


def _format_title(key: tuple[Any, ...]) -> str:
    methodology, reconstructed, contaminated = key
    kind = "reconstructed" if reconstructed else "live"
    contamination = ", models that may know the outcomes" if contaminated else ""
    return f"Arena, {methodology}, {kind} cohorts{contamination}"


def _format_metric(row: dict[str, Any], *, intervals: bool) -> str:
    is_share, sign = row["metric"] in ("return", "win_rate"), row["metric"] in (RELATIVE, "return", "skill_price")
    value = _format_value(row["value"], 1 if is_share else 3, sign=sign, kind="%" if is_share else "f")
    if not intervals:
        return value
    for ends, form in ((("lower", "upper"), "[{}, {}]"), (("cohort_low", "cohort_high"), "({}, {})")):
        if row[ends[0]] is not None:
            return f"{value} {form.format(*(_format_end(row[name], is_share=is_share, sign=sign) for name in ends))}"
    return value


def _format_end(value: float, *, is_share: bool, sign: bool) -> str:
    """Format an end of an interval. Shares from 10 % on are whole percents, so that the table fits 80 columns."""
    return _format_value(100 * value, int(abs(value) < _WHOLE), sign=sign) if is_share else _format_value(value, 3, sign=sign)


def _format_value(value: float | None, digits: int, *, sign: bool = False, kind: str = "f") -> str:
    return "–" if value is None else f"{value:{'+' if sign else ''}z.{digits}{kind}}"
