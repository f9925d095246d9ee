"""Resolution of Polymarket markets by the evidence of Gamma, UMA and the CLOB, without guesses.

A closed market is not resolved, and prices at 0 and 1 are not an outcome while a resolution is only proposed or disputed. Contradictory
sources give no outcome either. Every resolution names the rule that decided and keeps the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import reduce

import polars as pl

from bellwether.tables.clean import RESOLUTIONS
from bellwether.tables.schema import EXACT_PRICE, PRICE, TIME, USDC
from bellwether.venues.polymarket.wire.rules import normalize_condition

#: A market that has been closed for so long without a word on its resolution is taken to be one of the old ones that never had any.
SILENCE = timedelta(days=30)
#: Prices that mean nearly 1 and nearly 0, but do not say it.
NEAR_ONE, NEAR_ZERO = Decimal("0.99"), Decimal("0.01")

#: What is known of a market. winners: names of the outcomes that the CLOB flags; null where it was not asked. is_50_50: the CLOB's word.
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
    found = resolve_markets(evidence.select("day", "condition_id", "known_at", "clob_known_at", *EVIDENCE))
    table = found.select(
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


def _collect_flags(markets: pl.DataFrame, winners: pl.DataFrame) -> pl.DataFrame:
    """Collect by condition the outcomes that the CLOB flags as winners, under Gamma's names if their tokens match."""
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
    """Add the columns `RESOLUTION` to `evidence`, which has the columns of `EVIDENCE` and any others."""
    read = evidence.with_columns(**_classify_evidence()).with_columns(_find_flagged(evidence)).with_columns(**_draw_conclusions())
    rules = _rules()
    decided = read.with_columns(rule=_first(rules, "rule"))
    judged = decided.with_columns(
        status=_first(rules, "status"), outcome_reason=_first(rules, "reason"), final=_first(rules, "final"), place=_first(rules, "place")
    )
    settled = pl.col("status") == "settled"
    resolved = judged.with_columns(
        winner=pl.col("outcomes").list.get(pl.col("place"), null_on_oob=True),
        settlement_value=pl.when(settled).then(_compute_value()),
        settled_at=pl.when(settled).then(pl.max_horizontal("closed_at", "uma_end_at")),
    )
    word = pl.col("winner").str.strip_chars().str.to_lowercase()
    outcome = pl.when(pl.col("market_type") == "binary").then(word)
    return resolved.with_columns(outcome=outcome).select(*evidence.columns, *RESOLUTION)


def _lower_word(name: str) -> pl.Expr:
    """Return a value of the venue in lower case; null if missing or empty."""
    text = pl.col(name).str.strip_chars().str.to_lowercase()
    return pl.when(text != "").then(text)


def _classify_evidence() -> dict[str, pl.Expr]:
    """Return expressions that classify the evidence: UMA's last state, and the kind of prices."""
    prices, count = pl.col("outcome_prices"), pl.col("outcomes").list.len()
    whole = (prices.list.len() == count) & (count > 1)
    history = pl.col("uma_statuses").list.last().str.strip_chars().str.to_lowercase()
    newer = pl.when(_lower_word("resolution_status") == "resolved").then(pl.lit("resolved"))
    ones, zeros = prices.list.eval(pl.element() == 1).list.sum(), prices.list.eval(pl.element() == 0).list.sum()
    high, low = prices.list.eval(pl.element() >= NEAR_ONE).list.sum(), prices.list.eval(pl.element() <= NEAR_ZERO).list.sum()
    total = prices.list.sum()
    return {
        "is_closed": pl.col("closed").fill_null(False),
        "uma": pl.coalesce(_lower_word("uma_resolution_status"), history, newer),
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
    """Return the position among Gamma's outcomes of the first that the CLOB flags; null if it is not among them."""
    named = evidence.select("outcomes", flagged=pl.col("winners").list.first().str.strip_chars().str.to_lowercase()).with_row_index("row")
    places = named.filter(pl.col("outcomes").list.len() > 0).explode("outcomes").with_columns(place=pl.int_range(pl.len()).over("row"))
    found = places.filter(pl.col("outcomes").str.strip_chars().str.to_lowercase() == pl.col("flagged")).unique(
        "row", keep="first", maintain_order=True
    )
    return named.select("row").join(found.select("row", flag_place="place"), on="row", how="left", maintain_order="left")["flag_place"]


def _draw_conclusions() -> dict[str, pl.Expr]:
    """Return expressions for conclusions: whether a source states a final result, and whether the sources disagree."""
    by_uma = pl.col("uma").is_in(["resolved", "settled"]).fill_null(False)
    by_clob = (pl.col("uma").is_null() | (pl.col("uma") == "requested")) & ((pl.col("flags") > 0) | pl.col("half"))
    by_silence = pl.col("uma").is_null() & _lower_word("resolution_status").is_null() & pl.col("is_old") & ~by_clob
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
    """Resolution rule: its condition, and the resolution if it applies. place: position of the winner among the outcomes."""

    name: str
    applies: pl.Expr
    status: str
    reason: str | None
    final: pl.Expr = field(default_factory=lambda: pl.lit(False))
    place: pl.Expr = field(default_factory=lambda: pl.lit(None, pl.Int64))

    def part(self, name: str) -> pl.Expr:
        """Return one column of the resolution by this rule."""
        words = {"rule": self.name, "status": self.status, "reason": self.reason}
        if name in words:
            return pl.lit(words[name], pl.String)
        return self.final if name == "final" else self.place.cast(pl.Int64)


def _rules() -> tuple[ResolutionRule, ...]:
    """Return the rules in order; the first that applies decides."""
    uma, closed = pl.col("uma"), pl.col("is_closed")
    decided = uma.is_in(["proposed", "resolved", "settled"]).fill_null(False)
    void = pl.col("half") | (pl.col("all_equal") & (pl.col("by_uma") | pl.col("is_50_50").is_null()))
    one_flag, corners, by_uma = pl.col("flags") == 1, pl.col("at_corners"), pl.col("by_uma")
    top, flagged, over, old = pl.col("top"), pl.col("flag_place"), pl.lit(True), pl.col("is_old")
    return (
        ResolutionRule("disputed", (uma == "disputed").fill_null(False), "disputed", "disputed"),
        ResolutionRule("proposed", (uma == "proposed").fill_null(False) & closed, "determined", "undetermined"),
        ResolutionRule("decided but not closed", ~closed & decided, "determined", "undetermined"),
        ResolutionRule("not closed", ~closed, "active", "undetermined"),
        ResolutionRule("no word of UMA", ~pl.col("is_over"), "closed", "undetermined"),
        ResolutionRule("sources contradict each other", pl.col("disagree"), "settled", "contradictory evidence", old),
        ResolutionRule("all prices 0: never resolved", pl.col("all_zero"), "closed", "undetermined", old),
        ResolutionRule("scalar market", pl.col("is_scalar"), "settled", "scalar", over),
        ResolutionRule("half and half", void, "settled", "void", over),
        ResolutionRule("winner flag and prices", one_flag & corners, "settled", None, over, flagged),
        ResolutionRule("winner flag", one_flag, "settled", None, over, flagged),
        ResolutionRule("prices after UMA's word", corners & by_uma, "settled", None, over, top),
        ResolutionRule("prices long after the close", corners, "settled", None, over, top),
        ResolutionRule("prices near 0 and 1", pl.col("near_corners") & by_uma, "settled", "unknown result", old),
        ResolutionRule("fractional prices", pl.col("adds_up") & by_uma, "settled", "scalar", over),
        ResolutionRule("no prices that say it", by_uma, "settled", "unknown result", old),
        ResolutionRule("silent, prices do not say it", pl.lit(True), "closed", "undetermined", old),
    )


def _first(rules: Sequence[ResolutionRule], name: str) -> pl.Expr:
    """Return an expression for one column of the resolution, by the first rule that applies."""
    last = rules[-1].part(name)
    return reduce(lambda rest, rule: pl.when(rule.applies).then(rule.part(name)).otherwise(rest), reversed(rules[:-1]), last)


def _compute_value() -> pl.Expr:
    """Return the value of a contract of yes, or of the first of two named outcomes; null if missing or unknown."""
    words = pl.col("outcomes").list.eval(pl.element().str.strip_chars().str.to_lowercase())
    second = (pl.col("market_type") == "binary") & (words.list.last() == "yes")
    mine = pl.when(second).then(1).otherwise(0)
    price = pl.col("outcome_prices").list.get(mine, null_on_oob=True)
    half = pl.lit(Decimal("0.5")).cast(EXACT_PRICE)
    won = (pl.col("place") == mine).cast(pl.Int64).cast(EXACT_PRICE)
    reason = pl.col("outcome_reason")
    value = pl.when(pl.col("place").is_not_null()).then(won).when(reason == "void").then(half).when(reason == "scalar").then(price)
    return pl.when(words.list.len() == 2).then(value)


def _as_json() -> pl.Expr:
    """Format the evidence as JSON: prices without trailing zeros, instants in RFC 3339."""
    plain = pl.element().cast(pl.String).str.strip_chars_end("0").str.strip_chars_end(".")
    shown: list[pl.Expr] = []
    for name, dtype in EVIDENCE.items():
        if name == "outcome_prices":
            shown.append(pl.col(name).list.eval(plain).alias(name))
        elif dtype == TIME:
            shown.append(pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%SZ").alias(name))
        elif dtype == USDC:
            shown.append(pl.col(name).cast(pl.String).alias(name))
        elif name != "market_id":
            shown.append(pl.col(name))
    return pl.struct(shown).struct.json_encode()
