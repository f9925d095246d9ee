"""Page of a decision: prompt, answer, executed and refused legs (bets or sales), and the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import orjson

from bellwether.pages import columns
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Cell, Note, Page, Part, Section, Text, TextEntry, Texts
from bellwether.pages.render import File, render
from bellwether.pages.values import money, text, yes_no
from bellwether.site.paths import agent_path, cohort_path, decision_path, market_path

#: Rows of a table of the arena.
Rows = Sequence[Mapping[str, Any]]
#: Columns with sections of their own.
_TEXTS = ("decision", "reasoning", "message")


def market_cell(questions: Mapping[str, str], market_id: str) -> Cell:
    """Format the question of a market with a link to its page."""
    return text(questions.get(market_id, market_id), market_path(market_id), most=110)


def read_legs(
    trades: Rows, scored: Mapping[str, Mapping[str, Any]], held: Mapping[str, Mapping[str, Any]], questions: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Join the executed legs of a decision with the state of their positions and with the results.

    trades: rows of arena/trades. scored: rows of arena/scores by trade id. held: rows of arena/positions by position id.
    """
    joined = []
    for row in trades:
        position, score = held.get(row["position_id"], {}), scored.get(row["trade_id"], {})
        result = {"status": position.get("status"), "realized": position.get("realized"), "winner": score.get("winner")}
        joined.append({**row, **result, "won": score.get("won"), "question": market_cell(questions, row["market_id"])})
    return joined


def _legs(legs: Rows) -> Part:
    return build_table(
        "arena/trades",
        "Executed legs",
        legs,
        build_column("Market", lambda row: row["question"], "leads to its price and the evidence of its resolution"),
        build_column("Leg", lambda row: text(f"{row['action']} {row['side']}")),
        *(("probability", "Stated"), "bid", "ask", "price", "shares", "amount"),
        build_column("Position now", lambda row: text(row["status"])),
        build_column("Winner", lambda row: text(row["winner"])),
        build_column("Side won", lambda row: yes_no(row["won"])),
        build_column("Gain", lambda row: money(row["realized"], signed=True), "of the position, without fees", numeric=True),
        ("unmatched", "No counterparty"),
    )


def page(
    week: date, agent: dict[str, Any], decision: dict[str, Any], *, legs: Rows, refused: Rows, texts: list[TextEntry]
) -> Iterator[File]:
    """Yield the page of an agent's decision in one week.

    week: first week of its cohort. legs: from `read_legs`. refused: rows of arena/refusals. texts: the decision's prompt and answers.
    """
    refusals = build_table(
        "arena/refusals",
        "Legs that were not executed",
        refused,
        *("leg", "reason", ("message", "Details")),
        cells={"reason": lambda row: text(row["reason"].replace("_", " ")), "message": lambda row: text(row["message"], most=600)},
        empty="No leg was refused.",
    )
    prompts, answers = ([one for one in texts if (one.anchor == "prompt") == is_prompt] for is_prompt in (True, False))
    reasons = Text("Its reasoning", decision["reasoning"]) if decision["reasoning"] else Note("The model gave no reasoning.")
    wrong = [Text("Problem with the answer", decision["message"])] if decision["message"] else []
    parsed: Part = Note("The answer contains no decision.")
    if decision["decision"]:
        parsed = Text("Parsed decision, in JSON", _indent_json(decision["decision"]), open=False)
    sections = [
        Section("What the agent saw", [Texts("said", prompts) if prompts else Note("The warehouse has no prompt of this decision.")]),
        Section("What it answered", [reasons, *wrong, *([Texts("answers", answers)] if answers else [])]),
        Section("What was executed, and the result", [_legs(legs)]),
        Section("What was refused", [refusals]),
        Section("The record", [parsed, columns.facts("arena/decisions", decision, _TEXTS)]),
    ]
    title = f"{agent['family']}: {text(decision['action'] or decision['state']).text}, {decision['week']}"
    above = [("Arena", "arena/index.html"), (f"Cohort of {week}", cohort_path(week)), (agent["family"], agent_path(agent["agent_id"]))]
    lead = f"The decision of the week of {decision['week']}. A leg is one bet or sale of a decision."
    yield from render(Page(decision_path(decision["decision_id"]), title, lead, sections, above))


def _indent_json(decision: str) -> str:
    """Indent a decision's JSON; a text that is not JSON is returned unchanged."""
    try:
        return orjson.dumps(orjson.loads(decision), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return decision
