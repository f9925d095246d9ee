"""Pages of a cohort (the agents that start in one week), of each of its agents, and of their decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

import polars as pl

from bellwether.pages import charts, columns
from bellwether.pages.model import Cell, Grid, Head, Links, Note, Page, PageTable, Section, Stats
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
    timestamp,
    yes_no,
)
from bellwether.site import arena_decisions
from bellwether.site.arena_decisions import Rows
from bellwether.site.arena_paths import (
    ABOVE,
    agent_path,
    archive_path,
    cohort_path,
    decision_path,
    family_path,
    market_cell,
    market_path,
    refused_cell,
)
from bellwether.site.data_pages import archive
from bellwether.site.source import SiteSource
from bellwether.site.texts import DecisionTexts

_POINTS = 150


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
    """Yield the pages of a cohort, of its agents and of their decisions, and the archive of the cohort's rows. week: first week of the cohort."""
    yield from _cohort(week, book, colours)
    yield archive_path(week), archive({name: getattr(book, name) for name in ("agents", "refusals", "universe", *_OF_AGENTS)})
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
            legs = arena_decisions.legs_of(trades, scored, positions, book.questions)
            yield from arena_decisions.page(
                week, agent, decision, legs=legs, refused=refusals.get(decision["decision_id"], []), texts=texts
            )


def _read_texts(source: SiteSource, cohort: date, week: date, decisions: pl.DataFrame) -> DecisionTexts:
    ids = decisions.filter(pl.col("week") == week)["decision_id"].to_list()
    messages = source.frame("arena/messages", week=week).filter(pl.col("decision_id").is_in(ids))
    return DecisionTexts.of(messages, f"arena/cohort/{cohort}/prompt-{week}")


def _curve(name: str, rows: Rows) -> list[dict[str, Any]]:
    return [{"name": name, "x": minute(rows[place]["at"]), "y": finite(rows[place]["total"])} for place in thin_indices(len(rows), _POINTS)]


def _initial_portfolio(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the portfolio of an agent before its first mark."""
    return {"total": agent["initial_cash"], "cash": agent["initial_cash"], "profit": 0}


# --- the cohort --------------------------------------------------------------------------------------------------------


def _cohort(week: date, book: Books, colours: dict[str, str]) -> Iterator[File]:
    marked = {row["agent_id"]: row for row in book.portfolios.group_by("agent_id", maintain_order=True).last().iter_rows(named=True)}
    last = {agent["agent_id"]: marked.get(agent["agent_id"]) or _initial_portfolio(agent) for agent in book.agents.iter_rows(named=True)}
    open_counts = dict(book.positions.filter(pl.col("status") == "open").group_by("agent_id").len().iter_rows())
    ended_counts = dict(book.positions.filter(pl.col("status") != "open").group_by("agent_id").len().iter_rows())
    trade_counts = dict(book.trades.group_by("agent_id").len().iter_rows())
    rows = []
    for agent in book.agents.sort("agent_id").iter_rows(named=True):
        name, newest = agent["agent_id"], last[agent["agent_id"]]
        total = newest["total"]
        rows.append(
            [
                text(agent["family"], agent_path(name)),
                text(agent["model"]),
                money(total),
                percent(float(total / agent["initial_cash"] - 1) if agent["initial_cash"] else None, 2),
                money(newest["cash"]),
                number(trade_counts.get(name, 0)),
                number(open_counts.get(name, 0)),
                number(ended_counts.get(name, 0)),
            ]
        )
    heads = [Head("Agent"), Head("Model"), Head("Total", number=True), Head("Return", number=True), Head("Cash", number=True)]
    heads += [Head("Trades", number=True), Head("Open", number=True), Head("Ended", number=True)]
    curves = []
    families = dict(book.agents.select("agent_id", "family").iter_rows())
    for name, part in group_rows(cast_decimals(book.portfolios), "agent_id").items():
        curves += _curve(families[name], part)
    first = book.agents.row(0, named=True)
    sections = [Section("", [_cohort_headline(book, last)]), Section("Agents", [PageTable(f"Agents of the cohort of {week}", heads, rows)])]
    if curves:
        sections.append(Section("Value", [charts.lines("Cash and positions", "UTC", "dollars", curves, colours, step=True)]))
    sections.append(Section("Universe of its first week", [_universe(book.universe, set(book.trades["market_id"]))]))
    sections.append(Section("Download", [Links([Cell("All rows of the cohort as Parquet and CSV", href=archive_path(week))])]))
    kind = "reconstructed" if first["reconstructed"] else "live"
    lead = f"{book.agents.height} agents, {kind}, methodology {first['methodology']}, lineup {first['lineup']}."
    yield from render(Page(cohort_path(week), f"Cohort of {week}", lead, sections, ABOVE))


def find_best(returns: Mapping[str, float], traders: frozenset[str]) -> list[str]:
    """Return the ids of the agents with the highest return among those that traded, several for a tie. traders: ids of agents with a trade."""
    traded = {agent: value for agent, value in returns.items() if agent in traders}
    return sorted(agent for agent, value in traded.items() if value == max(traded.values()))


def best_cell(best: Sequence[str]) -> Cell:
    """Return the cell that names the best agent of a cohort. best: from `find_best`."""
    return leader([text(agent.partition("/")[2], agent_path(agent)) for agent in best], "no agent traded")


def _cohort_headline(book: Books, last: Mapping[str, Mapping[str, Any]]) -> Stats:
    """Build the headline numbers of a cohort. last: row of the newest portfolio by agent."""
    gains = {
        agent: float(last[agent]["total"] / cash - 1)
        for agent, cash in book.agents.sort("agent_id").select("agent_id", "initial_cash").iter_rows()
        if cash
    }
    best = find_best(gains, frozenset(book.trades["agent_id"]))
    refused, costs = book.refusals.height, book.decisions["cost"]
    return Stats(
        [
            ("Agents", number(book.agents.height), ""),
            ("Mean return", percent(sum(gains.values()) / len(gains) if gains else None, 2), f"of {len(gains)} agents"),
            ("Best agent", best_cell(best), percent(gains[best[0]], 2).text if best else ""),
            ("Decisions", number(book.decisions.height), f"{(book.decisions['action'] == 'INVALID').sum()} invalid"),
            ("Executed legs", number(book.trades.height), f"{refused:,} refused"),
            ("Cost", columns.cost(None if costs.null_count() else costs.sum()), "of all decisions"),
        ]
    )


def _universe(universe: pl.DataFrame, linked: set[str]) -> Grid | Note:
    if not universe.height:
        return Note("The warehouse has no universe of this week.")
    heads = columns.heads("arena/universe", ("place", "#"), "question", "category", "outcomes", "prices", "volume", ("closes_at", "Ends"))
    rows = [
        [
            number(row["place"]),
            text(row["question"], market_path(row["market_id"]) if row["market_id"] in linked else ""),
            text(row["category"]),
            text(", ".join(row["outcomes"]), most=60),
            text(", ".join(price(one).text for one in row["prices"]), most=60),
            money(row["volume"]),
            timestamp(row["closes_at"]),
        ]
        for row in universe.iter_rows(named=True)
    ]
    return Grid("universe", "Markets that could be bet on", heads, rows, filters=(2,), search=(1, 2))


# --- the agent ---------------------------------------------------------------------------------------------------------


def _agent(
    week: date,
    agent: dict[str, Any],
    own: dict[str, list[dict[str, Any]]],
    scored: dict[str, dict[str, Any]],
    questions: dict[str, str],
    *,
    refused: Mapping[str, Rows],
    colours: dict[str, str],
) -> Iterator[File]:
    curve = _curve(agent["family"], own["portfolios"])
    newest = own["portfolios"][-1] if own["portfolios"] else _initial_portfolio(agent)
    sections = [
        Section("", [_agent_headline(agent, own, newest, sum(len(refused.get(row["decision_id"], ())) for row in own["decisions"]))]),
        Section("Decisions", [_decisions(own["decisions"], refused)]),
        Section(
            "Value",
            [charts.lines("Cash and positions", "UTC", "dollars", curve, {agent["family"]: colours[agent["family"]]}, step=True)]
            if curve
            else [Note("The agent has its initial cash: it has no marks yet.")],
        ),
        Section("Positions", [_positions(own["positions"], questions)]),
        Section("Trades", [_trades(own["trades"], questions, scored)]),
        Section("Ledger", [_ledger(own["ledger"], questions)]),
        Section("The agent", [columns.facts("arena/agents", agent)]),
    ]
    lead = f"Model {agent['model']}, cohort of {week}."
    above = [*ABOVE, (f"Cohort of {week}", cohort_path(week)), (agent["family"], family_path(agent["family"]))]
    yield from render(Page(agent_path(agent["agent_id"]), f"{agent['family']}, {week}", lead, sections, above))


def _agent_headline(agent: Mapping[str, Any], own: Mapping[str, Rows], now: Mapping[str, Any], refused: int) -> Stats:
    """Build the headline numbers of an agent. own: rows by table. now: newest portfolio. refused: number of bets or sales that were not executed."""
    total, cash, profit = float(now["total"]), float(agent["initial_cash"]), now["profit"]
    open_count = sum(row["status"] == "open" for row in own["positions"])
    return Stats(
        [
            ("Total", money(total), "cash and positions"),
            ("Return", percent(total / cash - 1 if cash else None, 2), f"profit {money(profit, signed=True).text}"),
            ("Cash", money(now["cash"]), f"of {money(cash).text} at the start"),
            ("Open positions", number(open_count), f"of {len(own['positions'])}"),
            ("Executed legs", number(len(own["trades"])), f"{refused} refused"),
            ("Decisions", number(len(own["decisions"])), f"{sum(row['action'] == 'INVALID' for row in own['decisions'])} invalid"),
        ]
    )


def _decisions(decisions: Rows, refused: Mapping[str, Rows]) -> PageTable | Note:
    if not decisions:
        return Note("No decision yet.")
    heads = [
        *columns.heads("arena/decisions", "week", "action", "state", "legs"),
        Head("Refused legs", "legs that were not executed, and why"),
        *columns.heads("arena/decisions", "attempts", "cost", "problem"),
    ]
    rows = [
        [
            text(row["week"], decision_path(row["decision_id"])),
            text(row["action"]),
            text(row["state"]),
            number(row["legs"]),
            refused_cell([one["reason"] for one in refused.get(row["decision_id"], [])]),
            number(row["attempts"]),
            columns.cost(row["cost"]),
            text(row["problem"] or row["reason"]),
        ]
        for row in decisions
    ]
    return PageTable("One decision per week", heads, rows)


def _positions(positions: Rows, questions: dict[str, str]) -> Grid | Note:
    if not positions:
        return Note("No positions yet.")
    heads = columns.heads("arena/positions", ("market_id", "Market"), "side", "status", "result", "shares", "cost")
    heads += columns.heads("arena/positions", "sold", "paid", ("realized", "Gain"), ("opened_at", "Opened"), ("ended_at", "Ended"))
    rows = [
        [
            market_cell(questions, row["market_id"]),
            text(row["side"]),
            text(row["status"]),
            text(row["result"] if row["won"] is None else f"{row['result']}: its side {'won' if row['won'] else 'lost'}"),
            number(row["shares"], 2),
            money(row["cost"]),
            money(row["sold"]),
            money(row["paid"]),
            money(row["realized"], signed=True),
            timestamp(row["opened_at"]),
            timestamp(row["ended_at"]),
        ]
        for row in positions
    ]
    return Grid("positions", "Open, sold and settled positions", heads, rows, filters=(1, 2), search=(0, 1))


def _trades(trades: Rows, questions: dict[str, str], scored: dict[str, dict[str, Any]]) -> Grid | Note:
    if not trades:
        return Note("No trades yet.")
    heads = columns.heads("arena/trades", "week", ("market_id", "Market"), "action", "side", "shares", "price", "amount")
    heads += columns.heads("arena/trades", ("unmatched", "No counterparty"), "fee", "bid", "ask", ("probability", "Stated"))
    heads += [Head("Won"), Head("Brier, stated", number=True)]
    rows = []
    for row in trades:
        score = scored.get(row["trade_id"], {})
        rows.append(
            [
                text(row["week"]),
                market_cell(questions, row["market_id"]),
                text(row["action"]),
                text(row["side"]),
                number(row["shares"], 2),
                price(row["price"]),
                money(row["amount"]),
                money(row["unmatched"]),
                money(row["fee"]),
                price(row["bid"]),
                price(row["ask"]),
                number(row["probability"], 3),
                yes_no(score.get("won")),
                number(score.get("brier_stated"), 3),
            ]
        )
    return Grid("trades", "Executed legs, with the quotes that they saw", heads, rows, filters=(0, 2, 3), search=(1, 3))


def _ledger(ledger: Rows, questions: dict[str, str]) -> Grid | Note:
    if not ledger:
        return Note("No cash movements yet.")
    heads = columns.heads("arena/ledger", ("number", "#"), ("known_at", "When"), "kind", "amount", "cash", ("market_id", "Market"), "side")
    heads += columns.heads("arena/ledger", ("shares", "Shares after"), ("cost", "Cost after"), "corrects")
    rows = [
        [
            number(row["number"]),
            timestamp(row["known_at"]),
            text(row["kind"]),
            money(row["amount"], signed=True),
            money(row["cash"]),
            market_cell(questions, row["market_id"]),
            text(row["side"]),
            number(row["shares"], 2),
            money(row["cost"]),
            yes_no(row["corrects"]),
        ]
        for row in ledger
    ]
    return Grid("ledger", "Cash movements", heads, rows, filters=(2,), search=(5,))
