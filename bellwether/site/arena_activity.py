"""Activity shown on the arena's overview: recent decisions with refused legs (bets or sales), open markets by closing time, and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import polars as pl

from bellwether.pages import charts, columns
from bellwether.pages.model import Head, Note, PageTable, Part, Section
from bellwether.pages.values import money, number, text, timestamp
from bellwether.site.arena_agents import Books
from bellwether.site.arena_paths import decision_path, family_path, market_cell, refused_cell
from bellwether.tables.arena import TOKENS

#: Maximum of listed decisions and open markets.
_RECENT, _DUE = 15, 10


@dataclass(frozen=True, slots=True)
class Activity:
    """Recent decisions, costs and open markets.

    recent: decisions, newest first; `refusals` contains the reasons of refused legs. costs: by family and week, null if the cost of a decision
    is unknown. due: markets with open positions by closing time. questions: question by market.
    """

    recent: pl.DataFrame
    costs: pl.DataFrame
    due: pl.DataFrame
    questions: Mapping[str, str]

    @classmethod
    def of(cls, books: Books) -> Activity:
        """Select the activity from the arena's rows. books: rows of all agents."""
        reasons = books.refusals.sort("leg").group_by("decision_id").agg(refusals=pl.col("reason"))
        family = books.agents.select("agent_id", "family")
        decisions = books.decisions.join(family, on="agent_id", maintain_order="left")
        recent = decisions.sort(["known_at", "decision_id"], descending=True).head(_RECENT)
        recent_rows = recent.select("decision_id", "family", "week", "known_at", "action", "state", "legs", "cost", "problem")
        costs = decisions.group_by("family", "week").agg(pl.len(), pl.col("attempts").sum(), *map(_sum_or_null, (*TOKENS, "cost")))
        closes = books.universe.group_by("market_id").agg(pl.col("closes_at").max())
        open_positions = books.positions.filter(pl.col("status") == "open").group_by("market_id").agg(pl.len(), pl.col("cost").sum())
        due = open_positions.join(closes, on="market_id").sort("closes_at", "market_id", nulls_last=True).head(_DUE)
        questions = {name: books.questions[name] for name in due["market_id"] if name in books.questions}
        return cls(
            recent_rows.join(reasons, on="decision_id", how="left", maintain_order="left"), costs.sort("family", "week"), due, questions
        )

    @property
    def frames(self) -> list[object]:
        """Everything that the sections show, for the digest of the page's inputs."""
        return [self.recent, self.costs, self.due, dict(self.questions)]

    def sections(self, colours: dict[str, str]) -> list[Section]:
        """Build the sections of recent decisions, open markets and costs."""
        return [
            Section("Activity", [self._recent_decisions(), self._open_markets()], (8, 4) if self.due.height else ()),
            Section.even("Cost", self._spending(colours)),
        ]

    def _recent_decisions(self) -> PageTable | Note:
        if not self.recent.height:
            return Note("No decision has been made yet.")
        heads = [
            columns.head("arena/decisions", "known_at", "Decided"),
            Head("Family"),
            *columns.heads("arena/decisions", ("action", "Decision"), "legs"),
        ]
        heads += [Head("Refused legs"), *columns.heads("arena/decisions", "cost", "problem")]
        rows = [
            [
                timestamp(row["known_at"]),
                text(row["family"], family_path(row["family"])),
                text(row["action"] or row["state"], decision_path(row["decision_id"])),
                number(row["legs"]),
                refused_cell(row["refusals"] or ()),
                columns.cost(row["cost"]),
                text(row["problem"], most=60),
            ]
            for row in self.recent.iter_rows(named=True)
        ]
        return PageTable("Recent decisions", heads, rows)

    def _open_markets(self) -> PageTable | Note:
        if not self.due.height:
            newest = self.recent["week"].max()
            return Note(f"No position is open. The next cohort is that of {newest + timedelta(weeks=1)}." if newest else "Nothing is due.")  # type: ignore[operator]
        heads = [Head("Market"), Head("Closes"), Head("Positions", number=True), Head("At stake", number=True)]
        rows = [
            [market_cell(self.questions, row["market_id"]), timestamp(row["closes_at"]), number(row["len"]), money(row["cost"])]
            for row in self.due.iter_rows(named=True)
        ]
        return PageTable("Due next: open markets by their close", heads, rows)

    def _spending(self, colours: dict[str, str]) -> list[Part]:
        if not self.costs.height:
            return [Note("No decision has a cost yet.")]
        rows_of_weeks = [
            {"name": row["family"], "x": f"{row['week']:%Y-%m-%d}", "y": float(row["cost"] / row["len"])}
            for row in self.costs.drop_nulls("cost").iter_rows(named=True)
        ]
        by_family = (
            self.costs.group_by("family")
            .agg(pl.col("len", "attempts").sum(), *map(_sum_or_null, (*TOKENS, "cost")))
            .with_columns(millions=pl.sum_horizontal(TOKENS, ignore_nulls=False).cast(pl.Decimal(38, 6)) / 1_000_000)
            .sort("cost", "family", descending=[True, False], nulls_last=True)
        )
        heads = [
            *columns.heads("arena/leaderboard", "family", "decisions"),
            *columns.heads("arena/decisions", "attempts", *TOKENS),
            columns.head("arena/leaderboard", "cost"),
            Head("Per decision", number=True),
            Head("Per million tokens", "cost of a million tokens of prompts and answers", number=True),
        ]
        rows = [
            [
                text(row["family"], family_path(row["family"])),
                *(number(row[name]) for name in ("len", "attempts", *TOKENS)),
                columns.cost(row["cost"]),
                columns.cost(_divide(row["cost"], row["len"])),
                columns.cost(_divide(row["cost"], row["millions"])),
            ]
            for row in by_family.iter_rows(named=True)
        ]
        chart = [charts.lines("Cost of a decision by week", "week", "dollars", rows_of_weeks, colours)] if rows_of_weeks else []
        return [*chart, PageTable("Cost by family and token", heads, rows)]


def _sum_or_null(column: str) -> pl.Expr:
    """Return an expression for the sum of a column, which is null if any value of the column is null."""
    values = pl.col(column)
    return pl.when(values.is_null().any()).then(None).otherwise(values.sum()).alias(column)


def _divide(cost: Decimal | None, count: Decimal | int | None) -> Decimal | None:
    """Return the dollars per thing. None if the cost or the count is unknown, or the count is 0."""
    return cost / count if cost is not None and count else None
