"""Inputs of rankings: agents, scored bets as forecasts, due decisions, profits of positions, and eligibility for a rank.

A cohort-week is one week in which a cohort decides. Its questions are those for which any agent of the cohort stated a probability. Every stated
bet counts unchanged. A rank requires usable answers, coverage of the questions (of submitted forecasters) and enough events; agents that state
the price are baselines without a rank. Each ranking group (methodology, reconstructed, contaminated) is ranked separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import polars as pl

from bellwether.arena.submissions import build_submitted_forecasts, submitted_due
from bellwether.calibration.scores import COVERAGE_FLOOR
from bellwether.formatting import floor_percent
from bellwether.tables.arena_rankings import GROUP, SUBMISSIONS
from bellwether.tables.schema import TIME, day_start

#: Columns by which rankings are grouped.
FAMILY = (*GROUP, "family")


@dataclass(frozen=True)
class RankingInputs:
    """The arena's tables for all weeks as of one instant, and knowledge cutoffs of models.

    cutoffs: by name of the model; None or missing for models and rules that know no outcome.
    """

    agents: pl.DataFrame
    decisions: pl.DataFrame
    universe: pl.DataFrame
    trades: pl.DataFrame
    prices: pl.DataFrame
    ledger: pl.DataFrame
    positions: pl.DataFrame
    portfolios: pl.DataFrame
    scores: pl.DataFrame
    cutoffs: Mapping[str, datetime | None]
    submissions: pl.DataFrame = field(default_factory=SUBMISSIONS.empty)

    @cached_property
    def entrants(self) -> pl.DataFrame:
        """One row per agent of a cohort that is not archived: agent_id, ranking group, family, cohort (Sunday) and initial_cash (dollars)."""
        dates = {name: at for name, at in self.cutoffs.items() if at is not None}
        cutoff = pl.col("model").replace_strict(dates, default=None, return_dtype=TIME) if dates else pl.lit(None, TIME)
        return self.agents.filter(pl.col("archived_at").is_null()).select(
            "agent_id",
            "methodology",
            "reconstructed",
            contaminated=(cutoff >= day_start(pl.col("week"))).fill_null(value=False),
            family="family",
            cohort="week",
            initial_cash=pl.col("initial_cash").cast(pl.Float64),
        )

    @cached_property
    def _events(self) -> pl.DataFrame:
        """Event of each market; null if the venue names no event."""
        return self.universe.group_by("market_id").agg(event=pl.col("event_id").drop_nulls().sort().last()).sort("market_id")

    @cached_property
    def _first(self) -> pl.DataFrame:
        """First outcome of each Polymarket market with two complementary outcomes, by week and market.

        On Kalshi two named outcomes are separate contracts, and possibly neither wins.
        """
        two = self.universe.filter(pl.col("venue") == "polymarket", pl.col("outcomes").list.len() == 2)
        return two.select("week", "market_id", first=_fold_case(pl.col("outcomes").list.first()))

    @cached_property
    def _listed(self) -> pl.DataFrame:
        """Price of each outcome in the universe of a week (the markets offered to agents); null if missing."""
        places = pl.int_ranges(0, pl.col("outcomes").list.len())
        return (
            self.universe.select("week", "market_id", "prices", outcome="outcomes", place=places)
            .explode("outcome", "place")
            .drop_nulls("outcome")
            .select(
                "week",
                "market_id",
                outcome=_fold_case(pl.col("outcome")),
                listed=pl.col("prices").list.get("place", null_on_oob=True).cast(pl.Float64),
            )
            .unique(["week", "market_id", "outcome"], keep="first", maintain_order=True)
        )

    @cached_property
    def bets(self) -> pl.DataFrame:
        """One row per scored bet, as a forecast of a question.

        event, market, question: numbers. A market is one outcome in all weeks, a question one outcome in one week: YES of a binary market, the
        first of two complementary outcomes, or each outcome of other markets. p: stated probability of the question, y: its result, price:
        price paid for it, as a price of the question. won, size, paid: of the bought side. direction: 1 if the bet wins with y, else -1. binary:
        whether the sides are YES and NO.
        """
        binary = pl.col("o_yes").is_not_null()
        side = _fold_case(pl.col("side"))

        def of_question(column: pl.Expr) -> pl.Expr:
            return pl.when(pl.col("outcome") == side).then(column).otherwise(1 - column)

        return (
            self.scores.drop("methodology")
            .join(self.trades.select("trade_id", "week"), on="trade_id", how="left")
            .join(self._events, on="market_id", how="left")
            .join(self._first, on=["week", "market_id"], how="left")
            .with_columns(outcome=pl.when(binary).then(pl.lit("yes")).otherwise(pl.coalesce("first", side)))
            .join(self.entrants, on="agent_id")
            .select(
                *FAMILY,
                "agent_id",
                "trade_id",
                "cohort",
                "week",
                "market_id",
                event=pl.col("event").fill_null(pl.col("market_id")).rank("dense"),
                market=pl.struct("market_id", "outcome").rank("dense"),
                question=pl.struct("week", "market_id", "outcome").rank("dense"),
                p=of_question(pl.col("probability")),
                y=of_question(pl.col("won").cast(pl.Float64)),
                price=of_question(pl.col("price")),
                won=pl.col("won").cast(pl.Float64),
                paid="price",
                size="brier_size",
                direction=pl.when(pl.col("outcome") == side).then(1.0).otherwise(-1.0),
                binary=binary,
            )
            .sort("trade_id")
        )

    @cached_property
    def baselines(self) -> pl.DataFrame:
        """Agents and submitted forecasters whose every stated probability is a price: that paid, the quoted midpoint, or that of the universe.

        One row per ranking group and family.
        """
        bought = (
            self.trades.filter(pl.col("action") == "BUY", pl.col("probability").is_not_null())
            .with_columns(outcome=_fold_case(pl.col("side")))
            .join(self._listed, on=["week", "market_id", "outcome"], how="left")
            .join(self.entrants, on="agent_id")
        )
        copied = pl.concat(
            [
                bought.select(*FAMILY, copied=_is_price("probability", "price", "mid", "listed")),
                self.submitted.select(*FAMILY, copied=_is_price("p", "price")),
            ]
        )
        return copied.group_by(FAMILY).agg(pl.col("copied").all()).filter("copied").select(FAMILY)

    @cached_property
    def questions(self) -> pl.DataFrame:
        """Questions of each cohort-week: those for which any of its agents stated a probability, contaminated or not.

        One row per methodology, reconstructed, cohort, week and question, with `binary`.
        """
        stated = self.bets.filter(pl.col("p").is_not_null())
        keys = ("methodology", "reconstructed", "cohort", "week", "question")
        return stated.group_by(keys, maintain_order=True).agg(pl.col("binary").first()).sort(keys)

    @cached_property
    def submitted(self) -> pl.DataFrame:
        """Forecasts that users submitted for the questions of `bets`, with the columns of `bets`; won, size and paid are null."""
        return build_submitted_forecasts(self.bets, self.due, self._submitted, self.prices)

    @cached_property
    def _submitted(self) -> pl.DataFrame:
        """Rows of arena/submissions. A forecaster that has the name of a family is renamed to "NAME (submitted)"."""
        is_family = pl.col("family").is_in(self.agents["family"].unique().sort().implode())
        return self.submissions.with_columns(family=pl.when(is_family).then(pl.col("family") + " (submitted)").otherwise("family"))

    @cached_property
    def submitted_due(self) -> pl.DataFrame:
        """Due decisions of submitted forecasters, with the columns of `due`: one per cohort-week from a forecaster's first to last forecast."""
        return submitted_due(self.due, self._submitted)

    @cached_property
    def due(self) -> pl.DataFrame:
        """One row per due decision: ranking group, cohort, week, kind (finished, invalid, failed or missing) and cost (dollars)."""
        kind = (
            pl.when((pl.col("state") == "finished") & (pl.col("action").fill_null("") == "INVALID"))
            .then(pl.lit("invalid"))
            .when(pl.col("state").is_in(["finished", "refused"]))
            .then(pl.lit("finished"))
            .when(pl.col("state").is_in(["failed", "blocked"]))
            .then(pl.lit("failed"))
            .otherwise(pl.lit("missing"))
        )
        rows = self.decisions.select("decision_id", "agent_id", "week", kind=kind, cost=pl.col("cost").cast(pl.Float64))
        return rows.join(self.entrants, on="agent_id").sort("decision_id")

    @cached_property
    def profits(self) -> pl.DataFrame:
        """One row per position: ranking group, cohort, opening week, stake with fees and profit in dollars, including the value of shares still held.

        event, market: numbers; market is the outcome in question. no, yes: profit if that outcome does not, and does, occur. sold: whether any
        shares were sold.
        """
        binary = pl.col("binary")
        side = pl.col("side").str.to_lowercase()
        # Live cohorts are valued at live prices only, reconstructed ones at all prices.
        prices = pl.concat([self.prices.filter(~pl.col("reconstructed")), self.prices.with_columns(reconstructed=True)])
        keys = ["market_id", "outcome", "reconstructed"]
        newest = prices.sort("at").group_by(keys).agg(pl.col("price").last().cast(pl.Float64).alias("newest"))
        marked = pl.when(binary & (side == "no")).then(1 - pl.col("newest")).otherwise(pl.col("newest"))
        valued = (
            self.positions.drop("methodology")
            .join(self.entrants, on="agent_id")
            .with_columns(outcome=pl.when(binary).then(pl.lit("YES")).otherwise(side))
            .join(newest, on=keys, how="left")
            .with_columns(
                value=pl.when(pl.col("status") == "open")
                .then((pl.col("shares").cast(pl.Float64) * marked).fill_null(pl.col("cost").cast(pl.Float64)))
                .otherwise(0.0)
            )
        )
        cash = self.ledger.group_by("position_id").agg(pl.col("amount").cast(pl.Float64).sum())
        bought = pl.col("action") == "BUY"
        opened = self.trades.group_by("position_id").agg(
            pl.col("week").filter(bought).min(),
            bought=pl.col("shares").cast(pl.Float64).filter(bought).sum(),
            stake=(pl.col("amount").cast(pl.Float64) + pl.col("fee").cast(pl.Float64)).filter(bought).sum(),
            has_sales=~bought.all(),
        )
        side = _fold_case(pl.col("side"))
        outcome = pl.when(binary).then(pl.lit("yes")).otherwise(pl.coalesce("first", side))
        paid = pl.col("bought") - pl.col("stake")
        return (
            valued.join(cash, on="position_id")
            .join(opened, on="position_id", how="left")
            .join(self._events, on="market_id", how="left")
            .join(self._first, on=["week", "market_id"], how="left")
            .select(
                *FAMILY,
                "agent_id",
                "cohort",
                "week",
                "position_id",
                event=pl.col("event").fill_null(pl.col("market_id")).rank("dense"),
                market=pl.struct("market_id", outcome.alias("outcome")).rank("dense"),
                no=pl.when(outcome == side).then(-pl.col("stake")).otherwise(paid),
                yes=pl.when(outcome == side).then(paid).otherwise(-pl.col("stake")),
                stake="stake",
                sold="has_sales",
                profit=pl.col("amount") + pl.col("value"),
            )
            .sort("position_id")
        )


#: Maximum difference at which a stated probability is a price; answers have six decimals.
_SAME_PRICE = 1e-6


def _is_price(p: str, *prices: str) -> pl.Expr:
    """Return an expression for whether the probability in column `p` is one of the prices in other columns."""
    return pl.any_horizontal(
        ((pl.col(p).cast(pl.Float64) - pl.col(price).cast(pl.Float64)).abs() <= _SAME_PRICE).fill_null(value=False) for price in prices
    )


def _fold_case(name: pl.Expr) -> pl.Expr:
    """Return an expression that strips and lower-cases names of sides or outcomes, for comparison."""
    return name.str.strip_chars().str.to_lowercase()


#: Minimum number of events for a rank by a score.
MINIMUM_EVENTS = 10
#: Reason for no rank of an agent whose every stated probability is the market's price.
BASELINE = "baseline: it states the market's price"
_CELL = ("cohort", "week")


def explain_exclusions(due: pl.DataFrame, questions: pl.DataFrame, submitted: pl.DataFrame, agents: Sequence[str]) -> dict[str, str]:
    """Return, by family, why a family has no rank by any metric; only such families are contained. agents: families that trade.

    due: due decisions. questions: of cohort-weeks. submitted: submitted forecasts. Families that trade choose their questions, so that only
    their decisions are required.
    """
    reasons = dict[str, str]()
    for family, finished, decisions in due.group_by("family").agg((pl.col("kind") == "finished").sum(), decisions=pl.len()).iter_rows():
        if (reason := _explain_shortfall(finished, decisions, "usable answers in", "decisions")) is not None:
            reasons[family] = reason
    others = due.filter(~pl.col("family").is_in(list(agents)))
    expected = others.join(questions.filter("binary"), on=_CELL).group_by("family").agg(pl.len().alias("asked"))
    answered = submitted.select("family", *_CELL, "question").unique().group_by("family").agg(pl.len().alias("answered"))
    for family, total, answers in expected.join(answered, on="family", how="left").iter_rows():
        if (reason := _explain_shortfall(answers or 0, total, "forecasts of", "questions")) is not None:
            reasons[family] = reason
    return reasons


def explain_too_few_events(events: int) -> str | None:
    """Return why a score over too few events has no rank; None if the number `events` is enough."""
    return None if events >= MINIMUM_EVENTS else f"scored on {events} event{'' if events == 1 else 's'}; a rank needs {MINIMUM_EVENTS}"


def _explain_shortfall(part: int, whole: int, action: str, unit: str) -> str | None:
    if part >= COVERAGE_FLOOR * whole:
        return None
    return f"{action} {part} of {whole} {unit} ({floor_percent(part / whole)}); a rank needs {COVERAGE_FLOOR:.0%}"
