"""Pages of a cohort (the agents that start in one week), of its agents and their decisions, and of the traded markets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import orjson
import polars as pl

from bellwether.figures.canvas import palette
from bellwether.pages import charts, columns
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Note, Page, Part, Section, Stats, Text, TextEntry, Texts
from bellwether.pages.render import File, render
from bellwether.pages.values import (
    cast_decimals,
    finite,
    group_rows,
    instant,
    money,
    percent,
    price,
    text,
    timestamp,
    yes_no,
)
from bellwether.site.paths import agent_path, cohort_path, decision_path, family_path, market_path
from bellwether.site.source import SiteSource
from bellwether.site.texts import DecisionTexts

_ABOVE = [("Arena", "arena/index.html")]
#: Columns of a decision with sections of their own.
_TEXTS = ("decision", "reasoning", "message")
Rows = Sequence[Row]


def pages(source: SiteSource, agents: pl.DataFrame, colours: dict[str, str]) -> Iterator[File]:
    """Yield the pages of all cohorts, agents, decisions and markets. agents: rows of `sql/site/arena_agents.sql`."""
    universe = source.frame("arena/universe")
    positions = cast_decimals(source.query("arena_positions"))
    legs = group_rows(cast_decimals(source.query("arena_legs")), "agent_id")
    decisions = group_rows(cast_decimals(source.frame("arena/decisions")), "agent_id")
    refused = source.frame("arena/refusals").filter(pl.col("superseded_at").is_null())
    refusals = group_rows(refused, "decision_id")
    curves, held = group_rows(source.query("arena_values"), "agent_id"), group_rows(positions, "agent_id")
    traded = set(positions["market_id"])
    for (week,), part in agents.group_by("week", maintain_order=True):
        offered = universe.filter(pl.col("week") == week)
        yield from _cohort(week, part, offered, curves, traded=traded, colours=colours)
        own = [decision for agent_id in part["agent_id"] for decision in decisions.get(agent_id, ())]
        texts = {one: _read_texts(source, week, one, own) for one in sorted({decision["week"] for decision in own})}
        for week_texts in texts.values():
            yield from week_texts.files()
        for agent in part.iter_rows(named=True):
            name = agent["agent_id"]
            made = decisions.get(name, [])
            yield from _agent(agent, curves.get(name, []), held.get(name, []), made, refusals=refusals, colours=colours)
            for decision in made:
                of_week = [leg for leg in legs.get(name, ()) if leg["week"] == decision["week"]]
                entries = texts[decision["week"]].entries(decision["decision_id"])
                yield from _decision(agent, decision, of_week, refusals.get(decision["decision_id"], []), entries)
    yield from _markets(source, universe, positions)


def _read_texts(source: SiteSource, cohort: date, week: date, decisions: Rows) -> DecisionTexts:
    ids = [decision["decision_id"] for decision in decisions if decision["week"] == week]
    messages = source.frame("arena/messages", week=week).filter(pl.col("decision_id").is_in(ids))
    return DecisionTexts.of(messages, f"arena/cohort/{cohort}/prompt-{week}")


def _curve(name: str, rows: Rows) -> list[dict[str, Any]]:
    return [{"name": name, "x": instant(row["at"]), "y": finite(row["total"])} for row in rows]


def _market_cell(row: Row) -> Cell:
    return text(row["question"] or row["market_id"], market_path(row["market_id"]), most=110)


def _cohort(
    week: date, agents: pl.DataFrame, universe: pl.DataFrame, curves: Mapping[str, Rows], *, traded: set[str], colours: dict[str, str]
) -> Iterator[File]:
    """Yield the page of a cohort. universe: markets of its first week. curves: portfolios by agent. traded: ids of markets with a page."""
    table = build_table(
        "arena/agents",
        f"Agents of the cohort of {week}, best first",
        agents.iter_rows(named=True),
        build_column("Agent", lambda row: text(row["family"], agent_path(row["agent_id"]))._replace(note=row["model"])),
        build_column("Total", lambda row: money(row["total"]), "cash and positions", numeric=True),
        build_column("Return", lambda row: percent(row["return"], 2), numeric=True),
        build_column("Cash", lambda row: money(row["cash"]), numeric=True),
        *("trades", "open", "ended"),
    )
    drawn = [point for agent in agents.iter_rows(named=True) for point in _curve(agent["family"], curves.get(agent["agent_id"], []))]
    markets = build_table(
        "arena/universe",
        "Markets that could be bet on",
        universe.iter_rows(named=True),
        *(("place", "#"), "question", "category", "outcomes"),
        build_column("Prices", lambda row: text(", ".join(price(one).text for one in row["prices"]), most=60), "price of each outcome"),
        *("volume", ("closes_at", "Ends")),
        links={"question": lambda row: market_path(row["market_id"]) if row["market_id"] in traded else ""},
        filters=("Category",),
        search=("Question", "Category"),
        empty="The warehouse has no universe of this week.",
        name="universe",
    )
    sections = [Section("Agents", [table])]
    if drawn:
        sections.append(Section("Value", [charts.lines("Cash and positions", "UTC", "dollars", drawn, colours, step=True)]))
    sections.append(Section("Universe of its first week", [markets]))
    first = agents.row(0, named=True)
    kind = "reconstructed: run later, with the prices and information of its time" if first["reconstructed"] else "live"
    lead = f"{agents.height} agents that start in one week; {kind}; methodology {first['methodology']}."
    yield from render(Page(cohort_path(week), f"Cohort of {week}", lead, sections, _ABOVE))


def _agent(
    agent: Row, curve: Rows, positions: Rows, decisions: Rows, *, refusals: Mapping[str, Rows], colours: dict[str, str]
) -> Iterator[File]:
    """Yield the page of an agent. refusals: refused legs by decision."""
    family, week = agent["family"], agent["week"]
    value: Part = Note("The agent has its initial cash: it has no marks yet.")
    if curve:
        value = charts.lines("Cash and positions", "UTC", "dollars", _curve(family, curve), {family: colours[family]}, step=True)
    held = build_table(
        "arena/positions",
        "Open, sold and settled positions",
        positions,
        build_column("Market", _market_cell, "leads to its price and its resolution"),
        *("side", "status", "won", "shares", "cost", "sold", "paid", ("realized", "Gain")),
        *(("opened_at", "Opened"), ("ended_at", "Ended")),
        filters=("Side", "Status"),
        search=("Market", "Side"),
        empty="No positions yet.",
        name="positions",
    )
    sections = [
        Section("", [_headline(agent)]),
        Section("Decisions", [_decisions(decisions, refusals)]),
        Section("Value", [value]),
        Section("Positions", [held]),
    ]
    lead = f"Model {agent['model']} in the cohort of {week}; methodology {agent['methodology']}."
    above = [*_ABOVE, (f"Cohort of {week}", cohort_path(week)), (family, family_path(family))]
    yield from render(Page(agent_path(agent["agent_id"]), f"{family}, {week}", lead, sections, above))


def _headline(agent: Row) -> Stats:
    profit = money(agent["total"] - agent["initial_cash"], signed=True).text
    return Stats(
        [
            ("Total", money(agent["total"]), "cash and positions"),
            ("Return", percent(agent["return"], 2), f"profit {profit}"),
            ("Cash", money(agent["cash"]), f"of {money(agent['initial_cash']).text} at the start"),
        ]
    )


def _decisions(decisions: Rows, refusals: Mapping[str, Rows]) -> Part:
    def refused(row: Row) -> Cell:
        reasons = [one["reason"].replace("_", " ") for one in refusals.get(row["decision_id"], ())]
        return text(f"{len(reasons)}: {', '.join(dict.fromkeys(reasons))}" if reasons else "none", most=80)

    return build_table(
        "arena/decisions",
        "One decision per week",
        decisions,
        *("week", "action", "state", "legs"),
        build_column("Refused legs", refused, "legs that were not executed, and why"),
        *("attempts", "cost"),
        build_column("Problem", lambda row: text(row["problem"] or row["reason"])),
        links={"week": lambda row: decision_path(row["decision_id"])},
        empty="No decision yet.",
    )


def _decision(agent: Row, decision: Row, legs: Rows, refused: Rows, texts: Sequence[TextEntry]) -> Iterator[File]:
    """Yield the page of an agent's decision in one week. legs: executed ones. texts: prompt and answers."""
    executed = build_table(
        "arena/trades",
        "Executed legs",
        legs,
        build_column("Market", _market_cell, "leads to its price and its resolution"),
        build_column("Leg", lambda row: text(f"{row['action']} {row['side']}")),
        *(("probability", "Stated"), "bid", "ask", "price", "shares", "amount"),
        build_column("Position now", lambda row: text(row["status"])),
        build_column("Winner", lambda row: text(row["winner"])),
        build_column("Side won", lambda row: yes_no(row["won"])),
        build_column("Gain", lambda row: money(row["realized"], signed=True), "of the position, without fees", numeric=True),
        ("unmatched", "No counterparty"),
        empty="No leg was executed.",
    )
    refusals = build_table(
        "arena/refusals",
        "Legs that were not executed",
        refused,
        "leg",
        build_column("Reason", lambda row: text(row["reason"].replace("_", " "))),
        build_column("Details", lambda row: text(row["message"], most=600)),
        empty="No leg was refused.",
    )
    prompts, answers = ([one for one in texts if (one.anchor == "prompt") == is_prompt] for is_prompt in (True, False))
    answered: list[Part] = [Text("Its reasoning", decision["reasoning"]) if decision["reasoning"] else Note("The model gave no reasoning.")]
    if decision["message"]:
        answered.append(Text("Problem with the answer", decision["message"]))
    if answers:
        answered.append(Texts("answers", answers))
    parsed: Part = Note("The answer contains no decision.")
    if decision["decision"]:
        parsed = Text("Parsed decision, in JSON", _indent_json(decision["decision"]), open=False)
    sections = [
        Section("What the agent saw", [Texts("said", prompts) if prompts else Note("The warehouse has no prompt of this decision.")]),
        Section("What it answered", answered),
        Section("What was executed, and the result", [executed]),
        Section("What was refused", [refusals]),
        Section("The record", [parsed, columns.facts("arena/decisions", decision, _TEXTS)]),
    ]
    week, family = agent["week"], agent["family"]
    title = f"{family}: {text(decision['action'] or decision['state']).text}, {decision['week']}"
    above = [*_ABOVE, (f"Cohort of {week}", cohort_path(week)), (family, agent_path(agent["agent_id"]))]
    lead = f"The decision of the week of {decision['week']}. A leg is one bet or sale of a decision."
    yield from render(Page(decision_path(decision["decision_id"]), title, lead, sections, above))


def _indent_json(decision: str) -> str:
    """Indent a decision's JSON; a text that is not JSON is returned unchanged."""
    try:
        return orjson.dumps(orjson.loads(decision), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return decision


def _markets(source: SiteSource, universe: pl.DataFrame, positions: pl.DataFrame) -> Iterator[File]:
    """Yield a page for each traded market: positions of all agents, price and resolution."""
    offered = {row["market_id"]: row for row in universe.sort("week").iter_rows(named=True)}
    settlements = group_rows(source.frame("arena/settlements"), "market_id")
    prices = group_rows(source.query("arena_marks"), "market_id")
    for name, held in sorted(group_rows(positions, "market_id").items()):
        table = build_table(
            "arena/positions",
            "Positions of all agents",
            held,
            build_column("Agent", lambda row: text(row["agent_id"], agent_path(row["agent_id"]))),
            *("side", "status", "shares", "cost", ("realized", "Gain"), "won", ("opened_at", "Opened"), ("ended_at", "Ended")),
            filters=("Side", "Status"),
            search=("Agent",),
            name="positions",
        )
        resolution = build_table(
            "arena/settlements",
            "Resolutions that count",
            settlements.get(name, []),
            *("methodology", "number", "result", "winner", "rule", ("known_at", "Known")),
            empty="The market is open.",
        )
        sections = [
            Section("Positions", [table]),
            Section("Price", [_prices(prices.get(name, []))]),
            Section("Resolution", [resolution]),
        ]
        about = offered.get(name)
        lead = f"Market {name}"
        if about:
            lead += f"; outcomes {', '.join(about['outcomes'])}; ends {timestamp(about['closes_at']).text}"
        title = text(about["question"] if about else name).text
        yield from render(Page(market_path(name), title, f"{lead}.", sections, _ABOVE))


def _prices(prices: Rows) -> Part:
    if not prices:
        return Note("The warehouse has no marks of this market.")
    rows = [{"name": row["outcome"], "x": instant(row["at"]), "y": finite(row["price"])} for row in prices]
    colours = dict(palette(row["outcome"] for row in prices))
    return charts.lines("Price by which positions are marked", "UTC", "dollars per share", rows, colours, step=True, height=240)
