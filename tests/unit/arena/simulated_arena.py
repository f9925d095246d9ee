"""Simulated arenas of families with known skill, drawn as the rows that rankings read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import polars as pl

from bellwether.arena.rankings import RankingInputs
from bellwether.calibration.forecasts import Floats
from bellwether.tables import table

START = date(2026, 1, 4)
WEEK = timedelta(days=7)
WEEKS_OF_A_COHORT = 5
CASH = 10_000.0


@dataclass(frozen=True)
class Simulated:
    """Parameters of an arena.

    `noises` is the standard deviation of each family's error in log odds. A cohort starts every week; `bets` is the number of bets per decision.
    """

    noises: dict[str, float]
    cohorts: int = 12
    bets: int = 5
    events: int = 40
    reconstructed: bool = False

    def inputs(self, seed: int) -> RankingInputs:
        """Draw the rows of the arena. Outcomes within an event are correlated."""
        generator = np.random.default_rng(seed)
        weeks = self.cohorts + WEEKS_OF_A_COHORT - 1
        families, noise = list(self.noises), np.array(list(self.noises.values()))
        decided = [(cohort, week) for cohort in range(self.cohorts) for week in range(cohort, cohort + WEEKS_OF_A_COHORT)]
        cohort, week = (np.repeat(column, len(families) * self.bets) for column in np.array(decided).T)
        family = np.tile(np.repeat(np.arange(len(families)), self.bets), len(decided))
        shape = (weeks, self.events, 2)
        odds = generator.normal(0, 1.2, shape[:2])[:, :, None] + generator.normal(0, 0.4, shape)
        truth = _chance(odds)
        luck = _shared(generator, shape)
        won = luck < truth
        event, market = generator.integers(0, self.events, len(week)), generator.integers(0, 2, len(week))
        at = (week, event, market)
        p = _chance(odds[at] + generator.normal(0, 1, len(week)) * noise[family])
        price = np.clip(_chance(odds[at] + generator.normal(0, 0.5, len(week))), 0.02, 0.98)
        number = np.tile(np.arange(self.bets), len(decided) * len(families)) + 1
        sundays = np.array([START + WEEK * index for index in range(weeks)])
        agent = [f"{START + WEEK * int(one)}/{families[two]}" for one, two in zip(cohort, family, strict=True)]
        trade = [f"{name}/{sundays[one]}/{leg}" for name, one, leg in zip(agent, week, number, strict=True)]
        market_id = [f"{one}-{two}-{three}" for one, two, three in zip(*at, strict=True)]
        return self._inputs(agent, trade, market_id, sundays[week], p, price, won[at].astype(float), generator)

    def _inputs(
        self,
        agent: list[str],
        trade: list[str],
        market: list[str],
        week: np.ndarray,
        p: Floats,
        price: Floats,
        won: Floats,
        generator: np.random.Generator,
    ) -> RankingInputs:
        size, spent = generator.random(len(p)), 100.0
        rows = pl.DataFrame(
            {
                "trade_id": trade,
                "agent_id": agent,
                "market_id": market,
                "side": "YES",
                "week": pl.Series(week.tolist(), dtype=pl.Date),
                "probability": p,
                "price": price,
                "won": won > 0,
                "o_yes": won.astype(np.int8),
                "brier_size": np.square(size - won),
                "amount": spent,
                "fee": 0.0,
                "position_id": trade,
                "action": "BUY",
                "binary": True,
                "status": "settled",
                "shares": spent / price,
                "cost": spent,
                "methodology": "v1",
            }
        )
        names = rows.select("agent_id").unique().sort("agent_id")
        agents = names.with_columns(
            week=pl.col("agent_id").str.slice(0, 10).str.to_date(),
            family=pl.col("agent_id").str.slice(11),
            model=pl.lit("model/") + pl.col("agent_id").str.slice(11),
            methodology=pl.lit("v1"),
            reconstructed=pl.lit(value=self.reconstructed),
            initial_cash=pl.lit(CASH),
            archived_at=pl.lit(None, pl.Datetime("us", "UTC")),
        )
        decisions = (
            rows.select("agent_id", "week")
            .unique()
            .with_columns(decision_id=pl.concat_str("agent_id", pl.col("week").cast(pl.String), separator="/"))
            .with_columns(state=pl.lit("finished"), action=pl.lit("BET"), cost=pl.lit(0.01))
            .sort("decision_id")
        )
        profit = pl.col("won") * pl.col("shares") - pl.col("cost")
        return RankingInputs(
            agents=agents,
            decisions=decisions,
            universe=rows.select(
                "week",
                "market_id",
                event_id=pl.col("market_id").str.extract(r"(\d+-\d+)-"),
                venue=pl.lit("polymarket"),
                outcomes=pl.lit(["Yes", "No"]),
                prices=pl.lit([None, None], pl.List(pl.Float64)),
            ).unique(["week", "market_id"], maintain_order=True),
            trades=rows.select(
                *(
                    "trade_id",
                    "agent_id",
                    "position_id",
                    "market_id",
                    "side",
                    "probability",
                    "action",
                    "week",
                    "amount",
                    "fee",
                    "shares",
                    "price",
                ),
                mid="price",
            ),
            prices=table("arena/prices").empty(),
            ledger=rows.select("position_id", amount=profit),
            positions=rows.select("position_id", "agent_id", "market_id", "side", "binary", "status", "shares", "cost", "methodology"),
            portfolios=_portfolios(rows.select("agent_id", "week", profit=profit)),
            scores=rows.select(
                "trade_id", "agent_id", "market_id", "side", "probability", "price", "won", "o_yes", "brier_size", "methodology"
            ),
            cutoffs={},
        )


def _portfolios(rows: pl.DataFrame) -> pl.DataFrame:
    weekly = rows.group_by("agent_id", "week").agg(pl.col("profit").sum()).sort("agent_id", "week")
    at = pl.col("week").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return weekly.select("agent_id", at=at, total=CASH + pl.col("profit").cum_sum().over("agent_id"))


def _chance(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-odds)))


def _shared(generator: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    """Draw uniform numbers for markets, correlated within an event."""
    from scipy.special import ndtr

    common = generator.normal(0, 1, shape[:2])[:, :, None]
    return np.asarray(ndtr(np.sqrt(0.5) * common + np.sqrt(0.5) * generator.normal(0, 1, shape)))
