"""Selection of a release's questions from settled markets, with prices before the close."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import polars as pl

from bellwether.questions.base_rates import add_base_rates
from bellwether.questions.release import Release
from bellwether.tables.benchmark import BASE_RATES, HORIZONS, QUESTIONS
from bellwether.tables.schema import PRICE

MARKET = ["venue", "market_id"]
ROW = ["day", *MARKET]


@dataclass(frozen=True, slots=True)
class EligibilityRule:
    """Condition that a market must meet to become a question. keeps_out: description of the markets excluded by it."""

    name: str
    keeps_out: str
    condition: pl.Expr

    @property
    def column(self) -> str:
        """Name of the Boolean column with the rule's result for each market."""
        return f"rule {self.name}"


def eligibility(release: Release) -> tuple[EligibilityRule, ...]:
    """Return the eligibility rules of `release`, as expressions over clean/markets. A null result excludes the market."""
    resolved = pl.coalesce("settled_at", "close_time")
    rules = [
        EligibilityRule("venue", "markets of other venues", pl.col("venue").is_in(release.venues)),
        EligibilityRule(
            "binary",
            "combos, scalars and other markets that are not one yes-or-no question",
            ~pl.col("is_combo") & (pl.col("market_type") == "binary"),
        ),
        EligibilityRule(
            "settled", "outcomes that are open, disputed or void", (pl.col("status") == "settled") & pl.col("outcome").is_in(["yes", "no"])
        ),
        EligibilityRule(
            "closed",
            "closing times that were never reached: horizons would count from a wrong instant",
            pl.col("close_time") <= pl.coalesce("settled_at", "known_at"),
        ),
        EligibilityRule(
            "after cutoff",
            "outcomes that training data may contain: closed or settled at or before the cutoff",
            pl.min_horizontal("close_time", resolved) > release.cutoff,
        ),
        EligibilityRule(
            "question",
            "markets with an empty or too long question",
            _text("question").str.len_chars().is_between(1, release.question_limit),
        ),
        EligibilityRule(
            "description", "questions without resolution criteria", _text("description").str.len_chars() >= release.min_description
        ),
    ]
    if release.until is not None:
        rules.append(EligibilityRule("until", "markets that settled after the release's end", resolved <= release.until))
    if release.categories is not None:
        rules.append(EligibilityRule("category", "other categories", pl.col("category").is_in(release.categories)))
    if release.require_open_after_cutoff:
        rules.append(EligibilityRule("open after cutoff", "questions that opened before the cutoff", pl.col("open_time") > release.cutoff))
    return tuple(rules)


def build(release: Release, markets: pl.LazyFrame, prices: pl.LazyFrame) -> pl.DataFrame:
    """Build the questions of `release` (rows of benchmark/questions) from clean/markets and clean/prices.

    Markets are chosen by a hash of the seed and the venue's ids, so that the sample does not depend on row order, process and
    machine. An additional market changes a sample only by the place that it takes itself.
    """
    eligible = _apply_rules(release, markets).filter(pl.all_horizontal(rule.column for rule in eligibility(release)))
    drawn = _draw_sample(release, _limit_per_series(release, eligible))
    facts = markets.join(drawn.lazy().select(*ROW, "ordinal"), on=ROW, how="inner").collect()
    rows = add_base_rates(_add_prices(facts, prices), markets).select(
        release=pl.lit(release.name),
        id=pl.concat_str(*MARKET, separator=":"),
        question=_text("question"),
        description=_text("description").str.slice(0, release.description_limit),
        category="category",
        close_time="close_time",
        ground_truth="outcome",
        market_probability=pl.col("last_price").cast(pl.Float64),
        series_ticker=pl.coalesce("series_id", "market_id"),
        source="venue",
        market_id="market_id",
        event_id=pl.coalesce("event_id", "market_id"),
        cluster=pl.concat_str("venue", pl.coalesce(f"{release.cluster}_id", "market_id"), separator=":"),
        open_time="open_time",
        settled_at="settled_at",
        **{column: pl.col(column) for name in HORIZONS for column in (f"price_{name}", f"price_{name}_at", f"bid_{name}", f"ask_{name}")},
        **{column: pl.col(column) for prefix in BASE_RATES for column in (f"{prefix}_n", f"{prefix}_yes", f"{prefix}_known_at")},
        ordinal=pl.col("ordinal").cast(pl.Int32),
        version=pl.lit(release.number, pl.Int32),
        cutoff=pl.lit(release.cutoff).cast(QUESTIONS.schema["cutoff"]),
        known_at="known_at",
        rules=pl.lit(release.version),
    )
    return QUESTIONS.validate(rows.sort(QUESTIONS.order))


def funnel(release: Release, markets: pl.LazyFrame) -> pl.DataFrame:
    """Count the markets that remain after each selection step of `release`. Columns: step, keeps_out, markets."""
    screened = _apply_rules(release, markets)
    rows = [("markets", "", screened.height)]
    for rule in eligibility(release):
        screened = screened.filter(pl.col(rule.column))
        rows.append((rule.name, rule.keeps_out, screened.height))
    limited = _limit_per_series(release, screened)
    rows.append(("per series", "questions beyond the limit per series", limited.height))
    rows.append(("sample", "questions beyond the sample size", _draw_sample(release, limited).height))
    return pl.DataFrame(rows, schema={"step": pl.String, "keeps_out": pl.String, "markets": pl.Int64}, orient="row")


def _text(column: str) -> pl.Expr:
    """Return a text column without surrounding blanks and without NUL characters, which databases and C programs take for the end of a
    text.
    """
    return pl.col(column).str.replace_all("\x00", "", literal=True).str.strip_chars()


def _apply_rules(release: Release, markets: pl.LazyFrame) -> pl.DataFrame:
    """Evaluate all eligibility rules on the latest known record of each market: its ids, and a Boolean column per rule."""
    results = [rule.condition.fill_null(False).alias(rule.column) for rule in eligibility(release)]
    narrow = markets.select(*ROW, "event_id", "series_id", "known_at", *results).collect()
    return narrow.sort("known_at", "day", descending=True).unique(subset=MARKET, keep="first", maintain_order=True)


def _limit_per_series(release: Release, markets: pl.DataFrame) -> pl.DataFrame:
    """Keep at most `per_series` markets of each series, chosen at random, and preferably of different events."""
    if not release.per_series:
        return markets
    event, series = pl.coalesce("event_id", "market_id"), pl.coalesce("series_id", "market_id")
    lots = markets.select(
        *ROW,
        event=pl.concat_str("venue", event, separator=":"),
        series=pl.concat_str("venue", series, separator=":"),
    )
    lots = lots.with_columns(market_lot=_lots("market", release.seed, _ids(lots)), event_lot=_lots("event", release.seed, lots["event"]))
    lots = lots.sort("market_lot").with_columns(turn=pl.int_range(pl.len()).over("event"))
    lots = lots.sort("turn", "event_lot").with_columns(place=pl.int_range(pl.len()).over("series"))
    return markets.join(lots.filter(pl.col("place") < release.per_series), on=ROW, how="semi")


def _draw_sample(release: Release, markets: pl.DataFrame) -> pl.DataFrame:
    """Draw the sample without replacement. The column `ordinal` numbers the questions in the order of drawing.

    Its hashes differ from those that order the markets of a series; reusing them would favour series with many markets.
    """
    drawn = markets.with_columns(lot=_lots("sample", release.seed, _ids(markets))).sort("lot")
    return drawn.head(release.sample_size or drawn.height).with_row_index("ordinal")


def _ids(markets: pl.DataFrame) -> pl.Series:
    return markets.select(pl.concat_str(*MARKET, separator=":")).to_series()


def _lots(purpose: str, seed: int, ids: pl.Series) -> pl.Series:
    """Return a hash of each id, whose order is random. purpose: makes orders for different purposes independent."""
    lots = [hashlib.sha256(f"{purpose}:{seed}:{name}".encode()).hexdigest() for name in ids]
    return pl.Series(lots, dtype=pl.String)


def _add_prices(facts: pl.DataFrame, prices: pl.LazyFrame) -> pl.DataFrame:
    """Add to `facts` the price at each horizon and the time of that price. `known_at` becomes the prices' if that is later."""
    bounds = facts.lazy().select(*ROW, "open_time", "close_time")
    middle = pl.when(pl.col("bid") <= pl.col("ask")).then(
        ((pl.col("bid") + pl.col("ask")) / 2).cast(PRICE)
    )  # A crossed book has no middle.
    quotes = (
        prices.join(bounds, on=ROW, how="inner")
        .filter((pl.col("at") <= pl.col("close_time")) & (pl.col("at") >= pl.col("open_time")).fill_null(True))
        .select(*ROW, "at", "close_time", "known_at", "bid", "ask", price=pl.coalesce(middle, "last"))
        .collect()
    )
    for name, hours in HORIZONS.items():
        latest = (
            quotes.filter(pl.col("at") <= pl.col("close_time") - pl.duration(hours=hours))
            .group_by(ROW)
            .agg(pl.col("price", "at", "known_at", "bid", "ask").sort_by("at").last())
        )
        quoted = latest.filter(pl.col("price").is_not_null()).select(
            *ROW,
            pl.col("price").alias(f"price_{name}"),
            pl.col("at").alias(f"price_{name}_at"),
            *(pl.when(pl.col("bid") <= pl.col("ask")).then(side).alias(f"{side}_{name}") for side in ("bid", "ask")),
            price_known_at="known_at",
        )
        facts = (
            facts.join(quoted, on=ROW, how="left")
            .with_columns(known_at=pl.max_horizontal("known_at", "price_known_at"))
            .drop("price_known_at")
        )
    return facts
