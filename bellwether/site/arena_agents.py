"""Pages of a cohort: its agents with their books, and their decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

import orjson
import polars as pl

from bellwether.site import charts
from bellwether.site.arena_names import agent_path, cohort_path, decision_path, family_path, market_path
from bellwether.site.model import Cell, Facts, Grid, Head, Note, Page, Section, Table, Text
from bellwether.site.render import File, render
from bellwether.site.source import Source
from bellwether.site.values import any_value, finite, money, number, percent, text, thin, when, yes_no

_POINTS = 150
_ABOVE = [("Arena", "arena/index.html")]
#: Columns of a decision that its page shows apart.
_TEXTS = ("decision", "reasoning", "message")


@dataclass(frozen=True, slots=True)
class Books:
    """Rows of the arena, of all agents or of some; `questions` are the questions of markets by id."""

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
    def read(cls, source: Source, agents: pl.DataFrame, portfolios: pl.DataFrame, universe: pl.DataFrame) -> Books:
        """All that the warehouse has."""
        frames = {name: source.frame(f"arena/{name}") for name in ("decisions", "refusals", "trades", "positions", "ledger", "scores")}
        questions = dict(universe.select("market_id", "question").unique("market_id", keep="last", maintain_order=True).iter_rows())
        return cls(agents=agents, portfolios=portfolios, universe=universe, questions=questions, **frames)

    @property
    def frames(self) -> list[Any]:
        """All there is, to be digested."""
        return [getattr(self, one.name) for one in fields(self)]

    def of(self, agents: pl.DataFrame) -> Books:
        """Of the agents of one cohort; the universe is that of its week."""
        ids = agents["agent_id"].to_list()
        parts = {name: getattr(self, name).filter(pl.col("agent_id").is_in(ids)) for name in _OF_AGENTS}
        refusals = self.refusals.filter(pl.col("decision_id").is_in(parts["decisions"]["decision_id"].to_list()))
        universe = self.universe.filter(pl.col("week").is_in(agents["week"].unique().to_list()))
        known = {*universe["market_id"], *parts["trades"]["market_id"], *parts["positions"]["market_id"]}
        asked = {name: self.questions[name] for name in sorted(known) if name in self.questions}
        return Books(agents=agents, refusals=refusals, universe=universe, questions=asked, **parts)


_OF_AGENTS = ("portfolios", "decisions", "trades", "positions", "ledger", "scores")


def pages(week: date, book: Books, colours: dict[str, str]) -> Iterator[File]:
    """The page of the cohort, of each agent, and of each decision."""
    yield from _cohort(week, book, colours)
    parts = {name: getattr(book, name).partition_by("agent_id", as_dict=True) for name in _OF_AGENTS}
    refusals = book.refusals.partition_by("decision_id", as_dict=True)
    for agent in book.agents.iter_rows(named=True):
        own = {name: part.get((agent["agent_id"],), getattr(book, name).clear()) for name, part in parts.items()}
        yield from _agent(week, agent, own, book.questions, colours)
        scored = {row["trade_id"]: row for row in own["scores"].iter_rows(named=True)}
        held = {row["position_id"]: row for row in own["positions"].iter_rows(named=True)}
        for decision in own["decisions"].iter_rows(named=True):
            refused = refusals.get((decision["decision_id"],), book.refusals.clear())
            trades = own["trades"].filter(pl.col("week") == decision["week"])
            yield from _decision(week, agent, decision, trades=trades, refused=refused, scored=scored, held=held, questions=book.questions)


def _curve(name: str, part: pl.DataFrame) -> list[dict[str, Any]]:
    shown = part.select("at", "total")[list(thin(part.height, _POINTS))]
    return [{"name": name, "x": f"{at:%Y-%m-%dT%H:%M}Z", "y": finite(total)} for at, total in shown.iter_rows()]


def _market(questions: dict[str, str], market_id: str) -> Cell:
    return text(questions.get(market_id, market_id), market_path(market_id), most=110)


# --- the cohort --------------------------------------------------------------------------------------------------------


def _cohort(week: date, book: Books, colours: dict[str, str]) -> Iterator[File]:
    last = {row["agent_id"]: row for row in book.portfolios.group_by("agent_id", maintain_order=True).last().iter_rows(named=True)}
    held = dict(book.positions.filter(pl.col("status") == "open").group_by("agent_id").len().iter_rows())
    ended = dict(book.positions.filter(pl.col("status") != "open").group_by("agent_id").len().iter_rows())
    traded = dict(book.trades.group_by("agent_id").len().iter_rows())
    rows = []
    for agent in book.agents.sort("agent_id").iter_rows(named=True):
        name, now = agent["agent_id"], last.get(agent["agent_id"])
        total = now["total"] if now else None
        rows.append(
            [
                text(agent["family"], agent_path(name)),
                text(agent["model"]),
                money(total),
                percent(float(total / agent["initial_cash"] - 1) if total is not None and agent["initial_cash"] else None, 2),
                money(now["cash"] if now else None),
                number(traded.get(name, 0)),
                number(held.get(name, 0)),
                number(ended.get(name, 0)),
            ]
        )
    heads = [Head("Agent"), Head("Model"), Head("Total", number=True), Head("Return", number=True), Head("Cash", number=True)]
    heads += [Head("Trades", number=True), Head("Open", number=True), Head("Ended", number=True)]
    curves = []
    families = dict(book.agents.select("agent_id", "family").iter_rows())
    for (name,), part in book.portfolios.group_by("agent_id", maintain_order=True):
        curves += _curve(families[name], part)
    first = book.agents.row(0, named=True)
    sections = [Section("Agents", [Table(f"Agents of the cohort of {week}", heads, rows)])]
    if curves:
        sections.append(Section("Value", [charts.lines("Cash and positions", "UTC", "dollars", curves, colours, step=True)]))
    sections.append(Section("Universe of its first week", [_universe(book.universe, set(book.trades["market_id"]))]))
    kind = "reconstructed" if first["reconstructed"] else "live"
    lead = f"{book.agents.height} agents, {kind}, methodology {first['methodology']}, lineup {first['lineup']}."
    yield from render(Page(cohort_path(week), f"Cohort of {week}", lead, sections, _ABOVE))


def _universe(universe: pl.DataFrame, linked: set[str]) -> Grid | Note:
    if not universe.height:
        return Note("The warehouse has no universe of this week.")
    heads = [
        Head("#", number=True),
        Head("Question"),
        Head("Category"),
        Head("Outcomes"),
        Head("Prices"),
        Head("Volume", number=True),
        Head("Ends"),
    ]
    rows = [
        [
            number(row["place"]),
            text(row["question"], market_path(row["market_id"]) if row["market_id"] in linked else ""),
            text(row["category"]),
            text(", ".join(row["outcomes"]), most=60),
            text(", ".join("–" if price is None else f"{price:.3f}" for price in row["prices"]), most=60),
            money(row["volume"]),
            when(row["closes_at"]),
        ]
        for row in universe.iter_rows(named=True)
    ]
    return Grid("universe", "Markets that could be bet on", heads, rows, filters=(2,), search=(1, 2))


# --- the agent ---------------------------------------------------------------------------------------------------------


def _agent(
    week: date, agent: dict[str, Any], own: dict[str, pl.DataFrame], questions: dict[str, str], colours: dict[str, str]
) -> Iterator[File]:
    curve = _curve(agent["family"], own["portfolios"])
    sections = [
        Section("Decisions", [_decisions(own["decisions"])]),
        Section(
            "Value",
            [charts.lines("Cash and positions", "UTC", "dollars", curve, {agent["family"]: colours[agent["family"]]}, step=True)]
            if curve
            else [Note("The warehouse has no marks of this agent yet.")],
        ),
        Section("Positions", [_positions(own["positions"], questions)]),
        Section("Trades", [_trades(own["trades"], questions, {row["trade_id"]: row for row in own["scores"].iter_rows(named=True)})]),
        Section("Ledger", [_ledger(own["ledger"], questions)]),
        Section("The agent", [Facts([(name, any_value(value)) for name, value in agent.items()])]),
    ]
    last = own["portfolios"].row(-1, named=True) if own["portfolios"].height else None
    lead = f"Model {agent['model']}, cohort of {week}." + (
        f" Worth {money(last['total']).text}, profit {money(last['profit'], signed=True).text}." if last else ""
    )
    above = [*_ABOVE, (f"Cohort of {week}", cohort_path(week)), (agent["family"], family_path(agent["family"]))]
    yield from render(Page(agent_path(agent["agent_id"]), f"{agent['family']}, {week}", lead, sections, above))


def _decisions(decisions: pl.DataFrame) -> Table | Note:
    if not decisions.height:
        return Note("It has decided nothing yet.")
    heads = [
        Head("Week"),
        Head("Action"),
        Head("State"),
        Head("Legs", number=True),
        Head("Attempts", number=True),
        Head("Cost", number=True),
        Head("Problem"),
    ]
    rows = [
        [
            text(row["week"], decision_path(row["decision_id"])),
            text(row["action"]),
            text(row["state"]),
            number(row["legs"]),
            number(row["attempts"]),
            number(row["cost"], 4, unit="$"),
            text(row["problem"] or row["reason"]),
        ]
        for row in decisions.iter_rows(named=True)
    ]
    return Table("One decision per week", heads, rows)


def _positions(positions: pl.DataFrame, questions: dict[str, str]) -> Grid | Note:
    if not positions.height:
        return Note("It holds and has held nothing.")
    heads = [Head("Market"), Head("Side"), Head("Status"), Head("Result"), Head("Shares", number=True), Head("Cost", number=True)]
    heads += [
        Head("Sold", number=True),
        Head("Paid", number=True),
        Head("Gain", "of sales and settlement, without fees", number=True),
        Head("Opened"),
        Head("Ended"),
    ]
    rows = [
        [
            _market(questions, row["market_id"]),
            text(row["side"]),
            text(row["status"]),
            text(row["result"] if row["won"] is None else f"{row['result']}: its side {'won' if row['won'] else 'lost'}"),
            number(row["shares"], 2),
            money(row["cost"]),
            money(row["sold"]),
            money(row["paid"]),
            money(row["realized"], signed=True),
            when(row["opened_at"]),
            when(row["ended_at"]),
        ]
        for row in positions.iter_rows(named=True)
    ]
    return Grid("positions", "Open, sold and settled positions", heads, rows, filters=(1, 2), search=(0, 1))


def _trades(trades: pl.DataFrame, questions: dict[str, str], scored: dict[str, dict[str, Any]]) -> Grid | Note:
    if not trades.height:
        return Note("It has not traded.")
    heads = [
        Head("Week"),
        Head("Market"),
        Head("Action"),
        Head("Side"),
        Head("Shares", number=True),
        Head("Price", number=True),
        Head("Amount", number=True),
    ]
    heads += [
        Head("Fee", number=True),
        Head("Bid", number=True),
        Head("Ask", number=True),
        Head("Stated", "probability that the side wins, as stated", number=True),
    ]
    heads += [Head("Won"), Head("Brier, stated", number=True)]
    rows = []
    for row in trades.iter_rows(named=True):
        score = scored.get(row["trade_id"], {})
        rows.append(
            [
                text(row["week"]),
                _market(questions, row["market_id"]),
                text(row["action"]),
                text(row["side"]),
                number(row["shares"], 2),
                number(row["price"], 4),
                money(row["amount"]),
                money(row["fee"]),
                number(row["bid"], 4),
                number(row["ask"], 4),
                number(row["probability"], 3),
                yes_no(score.get("won")),
                number(score.get("brier_stated"), 3),
            ]
        )
    return Grid("trades", "Executed legs, with the quotes that they saw", heads, rows, filters=(0, 2, 3), search=(1, 3))


def _ledger(ledger: pl.DataFrame, questions: dict[str, str]) -> Grid | Note:
    if not ledger.height:
        return Note("No cash has moved.")
    heads = [
        Head("#", number=True),
        Head("When"),
        Head("Kind"),
        Head("Amount", number=True),
        Head("Cash", number=True),
        Head("Market"),
        Head("Side"),
    ]
    heads += [Head("Shares after", number=True), Head("Cost after", number=True), Head("Corrects")]
    rows = [
        [
            number(row["number"]),
            when(row["known_at"]),
            text(row["kind"]),
            money(row["amount"], signed=True),
            money(row["cash"]),
            _market(questions, row["market_id"]),
            text(row["side"]),
            number(row["shares"], 2),
            money(row["cost"]),
            yes_no(row["corrects"]),
        ]
        for row in ledger.iter_rows(named=True)
    ]
    return Grid("ledger", "Cash movements", heads, rows, filters=(2,), search=(5,))


# --- the decision ------------------------------------------------------------------------------------------------------


def _decision(
    week: date,
    agent: dict[str, Any],
    decision: dict[str, Any],
    *,
    trades: pl.DataFrame,
    refused: pl.DataFrame,
    scored: dict[str, dict[str, Any]],
    held: dict[str, dict[str, Any]],
    questions: dict[str, str],
) -> Iterator[File]:
    became = []
    for row in trades.iter_rows(named=True):
        position = held.get(row["position_id"], {})
        score = scored.get(row["trade_id"], {})
        became.append(
            [
                _market(questions, row["market_id"]),
                text(f"{row['action']} {row['side']}"),
                number(row["shares"], 2),
                number(row["price"], 4),
                money(row["amount"]),
                text(position.get("status")),
                yes_no(score.get("won")),
                money(position.get("realized"), signed=True),
            ]
        )
    heads = [Head("Market"), Head("Leg"), Head("Shares", number=True), Head("Price", number=True), Head("Amount", number=True)]
    heads += [Head("Position now"), Head("Side won"), Head("Gain", "of the position, without fees", number=True)]
    legs = [[number(row["leg"]), text(row["reason"]), text(row["message"], most=600)] for row in refused.iter_rows(named=True)]
    parsed = (
        Text("Decision as it was read", _pretty(decision["decision"]))
        if decision["decision"]
        else Note("Nothing could be read as a decision.")
    )
    said = Text("The model's own words", decision["reasoning"]) if decision["reasoning"] else Note("The model gave no reasoning.")
    parts = [parsed, said, *([Text("What was wrong with it", decision["message"])] if decision["message"] else [])]
    facts = [(name.replace("_", " "), any_value(value)) for name, value in decision.items() if name not in _TEXTS]
    sections = [
        Section("Answer", parts),
        Section("Filled, and what became of it", [Table("Executed legs", heads, became)]),
        Section(
            "Refused", [Table("Legs that were not executed", [Head("Leg", number=True), Head("Reason"), Head("What was found")], legs)]
        ),
        Section(
            "The decision",
            [
                Facts(facts),
                Note(f"`bellwether arena explain` with {decision['decision_id']} shows the prompt and the answers word for word."),
            ],
        ),
    ]
    title = f"{agent['family']}: {text(decision['action'] or decision['state']).text}, {decision['week']}"
    above = [*_ABOVE, (f"Cohort of {week}", cohort_path(week)), (agent["family"], agent_path(agent["agent_id"]))]
    lead = f"The decision of the week of {decision['week']}: {decision['legs']} legs, {trades.height} executed, {refused.height} refused."
    yield from render(Page(decision_path(decision["decision_id"]), title, lead, sections, above))


def _pretty(decision: str) -> str:
    """JSON with line breaks; a text that is no JSON as it is."""
    try:
        return orjson.dumps(orjson.loads(decision), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return decision
