"""Resolution of Polymarket markets by evidence: what Gamma, UMA (the oracle) and the CLOB state about a market's result.

A closed market is not necessarily resolved, and prices at 0 and 1 are no outcome while a resolution is only proposed or disputed.
Contradictory sources give no outcome. Every resolution names its rule and contains the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import reduce

import polars as pl

from bellwether.tables.clean import RESOLUTIONS
from bellwether.tables.schema import EXACT_PRICE, PRICE, TIME, USDC
from bellwether.venues.polymarket.wire import normalize_condition

#: After this time, a closed market without any resolution status counts as one of the old markets that never had one.
SILENCE = timedelta(days=30)
#: Prices that count as nearly 1 and nearly 0.
NEAR_ONE, NEAR_ZERO = Decimal("0.99"), Decimal("0.01")

#: Evidence about a market. winners: outcomes that the CLOB flags, null without a request. is_50_50: flag of the CLOB.
EVIDENCE = pl.Schema(
    {
        "market_id": pl.String(),
        "market_type": pl.String(),
        "outcomes": pl.List(pl.String()),
        "closed": pl.Boolean(),
        "uma_resolution_status": pl.String(),
        "uma_statuses": pl.List(pl.String()),
        "resolution_status": pl.String(),
        "outcome_prices": pl.List(EXACT_PRICE),
        "winners": pl.List(pl.String()),
        "is_50_50": pl.Boolean(),
        "lower_bound": USDC,
        "upper_bound": USDC,
        "end_time": TIME,
        "closed_at": TIME,
        "uma_end_at": TIME,
        "fetched_at": TIME,
    }
)
RESOLUTION = ("status", "outcome", "winner", "settlement_value", "outcome_reason", "rule", "settled_at", "final")


def build_resolutions(markets: pl.LazyFrame, winners: pl.LazyFrame) -> pl.DataFrame:
    """Build rows of clean/resolutions from rows of raw/polymarket_markets and raw/polymarket_winners."""
    table = _resolve(markets, winners).select(
        "day",
        venue=pl.lit("polymarket"),
        market_id="market_id",
        condition_id="condition_id",
        market_type="market_type",
        status="status",
        outcome="outcome",
        winner="winner",
        settlement_value=pl.col("settlement_value").cast(PRICE),
        outcome_reason="outcome_reason",
        rule="rule",
        closed_at="closed_at",
        settled_at="settled_at",
        final="final",
        evidence=_as_json(),
        known_at=pl.max_horizontal("known_at", "clob_known_at"),
    )
    return RESOLUTIONS.validate(table.sort(RESOLUTIONS.order))


def list_unresolved(markets: pl.LazyFrame, winners: pl.LazyFrame) -> list[str]:
    """Return the sorted ids of the markets whose resolution is not final. Arguments: as of `build_resolutions`."""
    return _resolve(markets, winners).filter(~pl.col("final"))["market_id"].sort().to_list()


def _resolve(markets: pl.LazyFrame, winners: pl.LazyFrame) -> pl.DataFrame:
    """Return the evidence about markets and their resolutions."""
    rows = markets.select(
        "day",
        "market_id",
        "condition_id",
        "token_ids",
        "known_at",
        *(name for name in EVIDENCE if name not in ("market_id", "winners", "is_50_50")),
    ).collect()
    rows = rows.with_columns(key=normalize_condition(pl.col("condition_id")))
    flagged = winners.with_columns(key=normalize_condition(pl.col("condition_id")))
    flags = _collect_flags(rows, flagged.join(rows.lazy().select("day", "key"), on=["day", "key"], how="semi").collect())
    evidence = rows.join(flags, on=["day", "key"], how="left", maintain_order="left")
    return resolve_markets(evidence.select("day", "condition_id", "known_at", "clob_known_at", *EVIDENCE))


def _collect_flags(markets: pl.DataFrame, winners: pl.DataFrame) -> pl.DataFrame:
    """Collect, by market, the outcomes that the CLOB flags as winners, under the names that Gamma uses for the same tokens."""
    names = (
        markets.filter(pl.col("token_ids").list.len() == pl.col("outcomes").list.len())
        .select("day", "key", pl.col("token_ids").alias("token_id"), name="outcomes")
        .explode("token_id", "name")
        .unique(["day", "key", "token_id"], keep="first", maintain_order=True)
    )
    named = winners.join(names, on=["day", "key", "token_id"], how="left").with_columns(name=pl.coalesce("name", "outcome"))
    return named.group_by("day", "key").agg(
        winners=pl.col("name").filter(pl.col("winner").fill_null(False)).sort(),
        is_50_50=pl.col("is_50_50_outcome").any(),
        clob_known_at=pl.col("known_at").max(),
    )


def resolve_markets(evidence: pl.DataFrame) -> pl.DataFrame:
    """Add each market's resolution, the columns `RESOLUTION`, to the table `evidence`, which has at least the columns `EVIDENCE`."""
    classified = evidence.with_columns(**_classify_evidence()).with_columns(_find_flagged(evidence)).with_columns(**_draw_conclusions())
    decided = classified.with_columns(rule=_name_first(RULES)).join(_CONSEQUENCES, on="rule", how="left", maintain_order="left")
    place = (
        pl.when(pl.col("taken_from") == "flag").then("flag_place").when(pl.col("taken_from") == "price").then(pl.col("top").cast(pl.Int64))
    )
    settled = pl.col("status") == "settled"
    resolved = decided.with_columns(final=pl.col("final").fill_null(pl.col("is_old")), place=place).with_columns(
        winner=pl.col("outcomes").list.get(pl.col("place"), null_on_oob=True),
        settlement_value=pl.when(settled).then(_compute_value()),
        settled_at=pl.when(settled).then(pl.max_horizontal("closed_at", "uma_end_at")),
    )
    outcome = pl.when(pl.col("market_type") == "binary").then(_lower("winner"))
    return resolved.with_columns(outcome=outcome).select(*evidence.columns, *RESOLUTION)


def _lower(name: str) -> pl.Expr:
    """Return a text column in lower case without surrounding spaces; null if missing or empty."""
    text = pl.col(name).str.strip_chars().str.to_lowercase()
    return pl.when(text != "").then(text)


def _classify_evidence() -> dict[str, pl.Expr]:
    """Return expressions by name for facts that the rules use, such as UMA's last status and whether prices are at 0 and 1."""
    prices, count = pl.col("outcome_prices"), pl.col("outcomes").list.len()
    whole = (prices.list.len() == count) & (count > 1)
    history = pl.col("uma_statuses").list.last().str.strip_chars().str.to_lowercase()
    newer = pl.when(_lower("resolution_status") == "resolved").then(pl.lit("resolved"))
    ones, zeros = prices.list.eval(pl.element() == 1).list.sum(), prices.list.eval(pl.element() == 0).list.sum()
    high, low = prices.list.eval(pl.element() >= NEAR_ONE).list.sum(), prices.list.eval(pl.element() <= NEAR_ZERO).list.sum()
    total = prices.list.sum()
    return {
        "is_closed": pl.col("closed").fill_null(False),
        "uma": pl.coalesce(_lower("uma_resolution_status"), history, newer),
        "top": prices.cast(pl.List(pl.Float64)).list.arg_max(),
        "at_corners": (whole & (ones == 1) & (zeros == count - 1)).fill_null(False),
        "near_corners": (whole & (high == 1) & (low == count - 1) & (ones + zeros != count)).fill_null(False),
        "all_zero": (whole & (zeros == count)).fill_null(False),
        "all_equal": (whole & (prices.list.n_unique() == 1) & total.is_between(Decimal("0.99"), Decimal("1.01"))).fill_null(False),
        "adds_up": (whole & total.is_between(Decimal("0.99"), Decimal("1.01"))).fill_null(False),
        "flags": pl.col("winners").list.len().fill_null(0),
        "half": pl.col("is_50_50").fill_null(False),
        "is_scalar": (pl.col("upper_bound") > pl.col("lower_bound")).fill_null(False),
        "is_old": (pl.coalesce("closed_at", "end_time") + SILENCE <= pl.col("fetched_at")).fill_null(False),
    }


def _find_flagged(evidence: pl.DataFrame) -> pl.Series:
    """Return which of Gamma's outcomes the CLOB flags as winner, as a position in the list; null if it is missing there."""
    named = evidence.select("outcomes", flagged=pl.col("winners").list.first().str.strip_chars().str.to_lowercase()).with_row_index("row")
    places = named.filter(pl.col("outcomes").list.len() > 0).explode("outcomes").with_columns(place=pl.int_range(pl.len()).over("row"))
    matches = places.filter(pl.col("outcomes").str.strip_chars().str.to_lowercase() == pl.col("flagged")).unique(
        "row", keep="first", maintain_order=True
    )
    return named.select("row").join(matches.select("row", flag_place="place"), on="row", how="left", maintain_order="left")["flag_place"]


def _draw_conclusions() -> dict[str, pl.Expr]:
    """Return boolean expressions by name: whether each source states a final result, and whether the sources contradict each other."""
    by_uma = pl.col("uma").is_in(["resolved", "settled"]).fill_null(False)
    by_clob = (pl.col("uma").is_null() | (pl.col("uma") == "requested")) & ((pl.col("flags") > 0) | pl.col("half"))
    by_silence = pl.col("uma").is_null() & _lower("resolution_status").is_null() & pl.col("is_old") & ~by_clob
    elsewhere = (pl.col("flag_place") != pl.col("top")).fill_null(True)
    stated = pl.col("at_corners") | pl.col("near_corners")
    disagree = (
        (pl.col("flags") > 1)
        | ((pl.col("flags") == 1) & (pl.col("half") | pl.col("flag_place").is_null() | pl.col("all_zero") | pl.col("all_equal")))
        | ((pl.col("flags") == 1) & stated & elsewhere)
        | ((pl.col("flags") == 1) & by_uma & pl.col("adds_up") & ~stated)
        | (pl.col("half") & (stated | pl.col("all_zero")))
    )
    return {"by_uma": by_uma, "by_silence": by_silence, "is_over": by_uma | by_clob | by_silence, "disagree": disagree}


@dataclass(frozen=True, slots=True)
class ResolutionRule:
    """Rule of resolution: the condition `applies`, and the status and reason that follow.

    final: whether the resolution is final; None: once `SILENCE` has passed. taken_from: source of the winner's position, the CLOB's "flag" or the
    highest "price"; None without a winner.
    """

    name: str
    applies: pl.Expr
    status: str
    outcome_reason: str | None
    final: bool | None = False
    taken_from: str | None = None


def _rules() -> tuple[ResolutionRule, ...]:
    """Return the rules in order of precedence."""
    uma, closed = pl.col("uma"), pl.col("is_closed")
    decided = uma.is_in(["proposed", "resolved", "settled"]).fill_null(False)
    void = pl.col("half") | (pl.col("all_equal") & (pl.col("by_uma") | pl.col("is_50_50").is_null()))
    one_flag, corners, by_uma = pl.col("flags") == 1, pl.col("at_corners"), pl.col("by_uma")
    return (
        ResolutionRule("disputed", (uma == "disputed").fill_null(False), "disputed", "disputed"),
        ResolutionRule("proposed", (uma == "proposed").fill_null(False) & closed, "determined", "undetermined"),
        ResolutionRule("decided but not closed", ~closed & decided, "determined", "undetermined"),
        ResolutionRule("not closed", ~closed, "active", "undetermined"),
        ResolutionRule("no word of UMA", ~pl.col("is_over"), "closed", "undetermined"),
        ResolutionRule("sources contradict each other", pl.col("disagree"), "settled", "contradictory evidence", None),
        ResolutionRule("all prices 0: never resolved", pl.col("all_zero"), "closed", "undetermined", None),
        ResolutionRule("scalar market", pl.col("is_scalar"), "settled", "scalar", True),
        ResolutionRule("half and half", void, "settled", "void", True),
        ResolutionRule("winner flag and prices", one_flag & corners, "settled", None, True, "flag"),
        ResolutionRule("winner flag", one_flag, "settled", None, True, "flag"),
        ResolutionRule("prices after UMA's word", corners & by_uma, "settled", None, True, "price"),
        ResolutionRule("prices long after the close", corners, "settled", None, True, "price"),
        ResolutionRule("prices near 0 and 1", pl.col("near_corners") & by_uma, "settled", "unknown result", None),
        ResolutionRule("fractional prices", pl.col("adds_up") & by_uma, "settled", "scalar", True),
        ResolutionRule("no prices that say it", by_uma, "settled", "unknown result", None),
        ResolutionRule("silent, prices do not say it", pl.lit(True), "closed", "undetermined", None),
    )


RULES = _rules()
#: What follows from each rule.
_CONSEQUENCES = pl.DataFrame(
    [(rule.name, rule.status, rule.outcome_reason, rule.final, rule.taken_from) for rule in RULES],
    schema={"rule": pl.String, "status": pl.String, "outcome_reason": pl.String, "final": pl.Boolean, "taken_from": pl.String},
    orient="row",
)


def _name_first(rules: Sequence[ResolutionRule]) -> pl.Expr:
    """Return the name of the first rule that applies to each market."""
    names = [pl.lit(rule.name) for rule in rules]
    return reduce(
        lambda rest, pair: pl.when(pair[0].applies).then(pair[1]).otherwise(rest), zip(rules[-2::-1], names[-2::-1], strict=True), names[-1]
    )


def _compute_value() -> pl.Expr:
    """Compute the payout in dollars of YES, or of the first outcome if the outcomes have other names; null if unknown."""
    names = pl.col("outcomes").list.eval(pl.element().str.strip_chars().str.to_lowercase())
    second = (pl.col("market_type") == "binary") & (names.list.last() == "yes")
    position = pl.when(second).then(1).otherwise(0)
    price = pl.col("outcome_prices").list.get(position, null_on_oob=True)
    half = pl.lit(Decimal("0.5")).cast(EXACT_PRICE)
    won = (pl.col("place") == position).cast(pl.Int64).cast(EXACT_PRICE)
    reason = pl.col("outcome_reason")
    value = pl.when(pl.col("place").is_not_null()).then(won).when(reason == "void").then(half).when(reason == "scalar").then(price)
    return pl.when(names.list.len() == 2).then(value)


def _as_json() -> pl.Expr:
    """Format the evidence as JSON; prices have no trailing zeros, times are in RFC 3339."""
    plain = pl.element().cast(pl.String).str.strip_chars_end("0").str.strip_chars_end(".")
    fields: list[pl.Expr] = []
    for name, dtype in EVIDENCE.items():
        if name == "outcome_prices":
            fields.append(pl.col(name).list.eval(plain).alias(name))
        elif dtype == TIME:
            fields.append(pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%SZ").alias(name))
        elif dtype == USDC:
            fields.append(pl.col(name).cast(pl.String).alias(name))
        elif name != "market_id":
            fields.append(pl.col(name))
    return pl.struct(fields).struct.json_encode()
