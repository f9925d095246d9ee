"""Pages of a cohort (the agents that start in one week), of each of its agents, and of their decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.pages import charts, columns
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import (
    cast_decimals,
    finite,
    group_rows,
    leader,
    minute,
    money,
    number,
    percent,
    price,
    text,
    thin_indices,
    yes_no,
)
from bellwether.site import arena_decisions
from bellwether.site.arena_decisions import Rows, market_cell
from bellwether.site.paths import agent_path, cohort_path, decision_path, family_path, market_path
from bellwether.site.source import SiteSource
from bellwether.site.texts import DecisionTexts

_POINTS = 150
_ABOVE = [("Arena", "arena/index.html")]


@dataclass(frozen=True, slots=True)
class Books:
    """Rows of the arena's tables, of all agents or of one cohort. questions: text of the question by market id."""

    agents: pl.DataFrame
    portfolios: pl.DataFrame
    decisions: pl.DataFrame
    refusals: pl.DataFrame
    trades: pl.DataFrame
    positions: pl.DataFrame
    ledger: pl.DataFrame
    scores: pl.DataFrame
    universe: pl.DataFrame
    questions: dict[str, str]

    @classmethod
    def read(cls, source: SiteSource, agents: pl.DataFrame, portfolios: pl.DataFrame, universe: pl.DataFrame) -> Books:
        """Read the rows of all agents from the warehouse, with the given agents, portfolios and universe."""
        frames = {name: source.frame(f"arena/{name}") for name in ("decisions", "refusals", "trades", "positions", "ledger", "scores")}
        frames["refusals"] = frames["refusals"].filter(pl.col("superseded_at").is_null())
        questions = dict(universe.select("market_id", "question").unique("market_id", keep="last", maintain_order=True).iter_rows())
        return cls(agents=agents, portfolios=portfolios, universe=universe, questions=questions, **frames)

    @property
    def frames(self) -> list[Any]:
        """All fields, for the digest of a page's inputs."""
        return [getattr(self, one.name) for one in fields(self)]

    def of(self, agents: pl.DataFrame) -> Books:
        """Select the rows of the given agents, which form one cohort. The universe is that of the cohort's week."""
        ids = agents["agent_id"].to_list()
        parts = {name: getattr(self, name).filter(pl.col("agent_id").is_in(ids)) for name in _OF_AGENTS}
        refusals = self.refusals.filter(pl.col("decision_id").is_in(parts["decisions"]["decision_id"].to_list()))
        universe = self.universe.filter(pl.col("week").is_in(agents["week"].unique().to_list()))
        market_ids = {*universe["market_id"], *parts["trades"]["market_id"], *parts["positions"]["market_id"]}
        questions = {name: self.questions[name] for name in sorted(market_ids) if name in self.questions}
        return Books(agents=agents, refusals=refusals, universe=universe, questions=questions, **parts)


_OF_AGENTS = ("portfolios", "decisions", "trades", "positions", "ledger", "scores")


def pages(source: SiteSource, week: date, book: Books, colours: dict[str, str]) -> Iterator[File]:
    """Yield the pages of a cohort, of its agents and of their decisions. week: first week of the cohort."""
    yield from _cohort(week, book, colours)
    texts_by_week = {
        decision_week: _read_texts(source, week, decision_week, book.decisions) for decision_week in book.decisions["week"].unique().sort()
    }
    for week_texts in texts_by_week.values():
        yield from week_texts.files()
    parts = {name: group_rows(cast_decimals(getattr(book, name)), "agent_id") for name in _OF_AGENTS}
    refusals = group_rows(book.refusals, "decision_id")
    for agent in book.agents.iter_rows(named=True):
        own = {name: part.get(agent["agent_id"], []) for name, part in parts.items()}
        scored = {row["trade_id"]: row for row in own["scores"]}
        yield from _agent(week, agent, own, scored, book.questions, refused=refusals, colours=colours)
        positions = {row["position_id"]: row for row in own["positions"]}
        for decision in own["decisions"]:
            trades = [row for row in own["trades"] if row["week"] == decision["week"]]
            texts = texts_by_week[decision["week"]].entries(decision["decision_id"])
            legs = arena_decisions.read_legs(trades, scored, positions, book.questions)
            refused = refusals.get(decision["decision_id"], [])
            yield from arena_decisions.page(week, agent, decision, legs=legs, refused=refused, texts=texts)


def _read_texts(source: SiteSource, cohort: date, week: date, decisions: pl.DataFrame) -> DecisionTexts:
    ids = decisions.filter(pl.col("week") == week)["decision_id"].to_list()
    messages = source.frame("arena/messages", week=week).filter(pl.col("decision_id").is_in(ids))
    return DecisionTexts.of(messages, f"arena/cohort/{cohort}/prompt-{week}")


def _curve(name: str, rows: Rows) -> list[dict[str, Any]]:
    return [{"name": name, "x": minute(rows[place]["at"]), "y": finite(rows[place]["total"])} for place in thin_indices(len(rows), _POINTS)]


def _initial_portfolio(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the portfolio of an agent before its first mark."""
    return {"total": agent["initial_cash"], "cash": agent["initial_cash"], "profit": 0}


def refused_cell(reasons: Sequence[str]) -> Cell:
    """Format the number of refused legs (bets or sales of a decision) and why. reasons: one per leg."""
    found = [reason.replace("_", " ") for reason in reasons]
    return text(f"{len(found)}: {', '.join(dict.fromkeys(found))}" if found else "none", most=80)


def _count(counts: Mapping[str, int], row: Row) -> Cell:
    return number(counts.get(row["agent_id"], 0))


def _cohort(week: date, book: Books, colours: dict[str, str]) -> Iterator[File]:
    marked = {row["agent_id"]: row for row in book.portfolios.group_by("agent_id", maintain_order=True).last().iter_rows(named=True)}
    last = {agent["agent_id"]: marked.get(agent["agent_id"]) or _initial_portfolio(agent) for agent in book.agents.iter_rows(named=True)}
    is_open = pl.col("status") == "open"
    counts = {
        title: dict(rows.group_by("agent_id").len().iter_rows())
        for title, rows in (("Trades", book.trades), ("Open", book.positions.filter(is_open)), ("Ended", book.positions.filter(~is_open)))
    }
    gains = _gains(book, last)
    agents = build_table(
        "arena/agents",
        f"Agents of the cohort of {week}, best first",
        sorted(book.agents.iter_rows(named=True), key=lambda row: (-last[row["agent_id"]]["total"], row["agent_id"])),
        build_column("Agent", lambda row: text(row["family"], agent_path(row["agent_id"]))._replace(note=row["model"])),
        build_column("Total", lambda row: money(last[row["agent_id"]]["total"]), "cash and positions", numeric=True),
        build_column("Return", lambda row: percent(gains.get(row["agent_id"]), 2), numeric=True),
        build_column("Cash", lambda row: money(last[row["agent_id"]]["cash"]), numeric=True),
        *(build_column(title, partial(_count, count), numeric=True) for title, count in counts.items()),
    )
    families = dict(book.agents.select("agent_id", "family").iter_rows())
    curves = [row for name, part in group_rows(cast_decimals(book.portfolios), "agent_id").items() for row in _curve(families[name], part)]
    first = book.agents.row(0, named=True)
    sections = [Section("Agents", [agents])]
    if curves:
        sections.append(Section("Value", [charts.lines("Cash and positions", "UTC", "dollars", curves, colours, step=True)]))
    sections.append(Section("Universe of its first week", [_universe(book.universe, set(book.trades["market_id"]))]))
    kind = "reconstructed: run later, with the prices and information of its time" if first["reconstructed"] else "live"
    lead = f"{book.agents.height} agents that start in one week; {kind}; methodology {first['methodology']}."
    yield from render(Page(cohort_path(week), f"Cohort of {week}", lead, sections, _ABOVE))


def _gains(book: Books, last: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the return of each agent. last: row of the newest portfolio by agent."""
    cash = book.agents.sort("agent_id").select("agent_id", "initial_cash")
    return {agent: float(last[agent]["total"] / initial - 1) for agent, initial in cash.iter_rows() if initial}


def find_best(returns: Mapping[str, float], traders: frozenset[str]) -> list[str]:
    """Return the ids of the agents with the highest return among those that traded, several for a tie. traders: ids of agents with a trade."""
    traded = {agent: value for agent, value in returns.items() if agent in traders}
    return sorted(agent for agent, value in traded.items() if value == max(traded.values()))


def best_cell(best: Sequence[str]) -> Cell:
    """Return the cell that names the best agent of a cohort. best: from `find_best`."""
    return leader([text(agent.partition("/")[2], agent_path(agent)) for agent in best], "no agent traded")


def _universe(universe: pl.DataFrame, linked: set[str]) -> Part:
    def question(row: Mapping[str, Any]) -> Cell:
        return text(row["question"], market_path(row["market_id"]) if row["market_id"] in linked else "")

    return build_table(
        "arena/universe",
        "Markets that could be bet on",
        universe.iter_rows(named=True),
        *(("place", "#"), "question", "category", "outcomes", "prices", "volume", ("closes_at", "Ends")),
        cells={"question": question, "prices": lambda row: text(", ".join(price(one).text for one in row["prices"]), most=60)},
        filters=("Category",),
        search=("Question", "Category"),
        empty="The warehouse has no universe of this week.",
        name="universe",
    )


def _agent(
    week: date,
    agent: dict[str, Any],
    own_rows: dict[str, list[dict[str, Any]]],
    scored: dict[str, dict[str, Any]],
    questions: dict[str, str],
    *,
    refused: Mapping[str, Rows],
    colours: dict[str, str],
) -> Iterator[File]:
    """Yield the page of an agent. own_rows: its rows by table. scored: rows of arena/scores by trade. refused: refusals by decision."""
    family, market = agent["family"], {"market_id": lambda row: market_cell(questions, row["market_id"])}
    curve = _curve(family, own_rows["portfolios"])
    newest = own_rows["portfolios"][-1] if own_rows["portfolios"] else _initial_portfolio(agent)
    value: Part = Note("The agent has its initial cash: it has no marks yet.")
    if curve:
        value = charts.lines("Cash and positions", "UTC", "dollars", curve, {family: colours[family]}, step=True)
    positions = build_table(
        "arena/positions",
        "Open, sold and settled positions",
        own_rows["positions"],
        *(("market_id", "Market"), "side", "status", "result", "won", "shares", "cost", "sold", "paid", ("realized", "Gain")),
        *(("opened_at", "Opened"), ("ended_at", "Ended")),
        cells=market,
        filters=("Side", "Status"),
        search=("Market", "Side"),
        empty="No positions yet.",
        name="positions",
    )
    trades = build_table(
        "arena/trades",
        "Executed legs, with the quotes that they saw",
        own_rows["trades"],
        *("week", ("market_id", "Market"), "action", "side", "shares", "price", "amount", ("unmatched", "No counterparty"), "fee"),
        *("bid", "ask", ("probability", "Stated")),
        build_column("Won", lambda row: yes_no(scored.get(row["trade_id"], {}).get("won"))),
        build_column(
            "Brier", lambda row: number(scored.get(row["trade_id"], {}).get("brier_stated"), 3), "of the stated probability", numeric=True
        ),
        cells=market,
        filters=("Week", "Action", "Side"),
        search=("Market", "Side"),
        empty="No trades yet.",
        name="trades",
    )
    ledger = build_table(
        "arena/ledger",
        "Cash movements",
        own_rows["ledger"],
        *(("number", "#"), ("known_at", "When"), "kind", "amount", "cash", ("market_id", "Market"), "side"),
        *(("shares", "Shares after"), ("cost", "Cost after"), "corrects"),
        cells=market,
        filters=("Kind",),
        search=("Market",),
        empty="No cash movements yet.",
        name="ledger",
    )
    sections = [
        Section("", [_agent_headline(agent, newest)]),
        Section("Decisions", [_decisions(own_rows["decisions"], refused)]),
        Section("Value", [value]),
        Section("Positions", [positions]),
        Section("Trades", [trades]),
        Section("Ledger", [ledger]),
        Section("The agent", [columns.facts("arena/agents", agent)]),
    ]
    lead = f"Model {agent['model']}, cohort of {week}."
    above = [*_ABOVE, (f"Cohort of {week}", cohort_path(week)), (family, family_path(family))]
    yield from render(Page(agent_path(agent["agent_id"]), f"{family}, {week}", lead, sections, above))


def _agent_headline(agent: Mapping[str, Any], now: Mapping[str, Any]) -> Stats:
    """Build the headline numbers of an agent. now: newest portfolio."""
    total, cash, profit = float(now["total"]), float(agent["initial_cash"]), now["profit"]
    return Stats(
        [
            ("Total", money(total), "cash and positions"),
            ("Return", percent(total / cash - 1 if cash else None, 2), f"profit {money(profit, signed=True).text}"),
            ("Cash", money(now["cash"]), f"of {money(cash).text} at the start"),
        ]
    )


def _decisions(decisions: Rows, refused: Mapping[str, Rows]) -> Part:
    def refusals(row: Mapping[str, Any]) -> Cell:
        return refused_cell([one["reason"] for one in refused.get(row["decision_id"], [])])

    return build_table(
        "arena/decisions",
        "One decision per week",
        decisions,
        *("week", "action", "state", "legs"),
        build_column("Refused legs", refusals, "legs that were not executed, and why"),
        *("attempts", "cost", "problem"),
        cells={
            "week": lambda row: text(row["week"], decision_path(row["decision_id"])),
            "problem": lambda row: text(row["problem"] or row["reason"]),
        },
        empty="No decision yet.",
    )
