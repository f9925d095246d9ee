"""Page of a decision: prompt, answer, executed and refused legs (bets or sales), and the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import orjson

from bellwether.pages import columns
from bellwether.pages.model import Cell, Head, Note, Page, PageTable, Part, Section, Stats, Text, TextEntry, Texts
from bellwether.pages.render import File, render
from bellwether.pages.values import money, number, price, text, yes_no
from bellwether.site.arena_paths import ABOVE, agent_path, cohort_path, decision_path, market_cell

#: Rows of a table of the arena.
Rows = Sequence[Mapping[str, Any]]
#: Columns with sections of their own.
_TEXTS = ("decision", "reasoning", "message")


def legs_of(
    trades: Rows, scored: dict[str, dict[str, Any]], held: dict[str, dict[str, Any]], questions: dict[str, str]
) -> list[list[Cell]]:
    """Build the rows of the table of executed legs: quote and price of the trade, and the result of the position.

    trades: rows of arena/trades. scored: rows of arena/scores by trade id. held: rows of arena/positions by position id.
    """
    rows = []
    for row in trades:
        position = held.get(row["position_id"], {})
        score = scored.get(row["trade_id"], {})
        rows.append(
            [
                market_cell(questions, row["market_id"]),
                text(f"{row['action']} {row['side']}"),
                number(row["probability"], 3),
                price(row["bid"]),
                price(row["ask"]),
                price(row["price"]),
                number(row["shares"], 2),
                money(row["amount"]),
                text(position.get("status")),
                text(score.get("winner")),
                yes_no(score.get("won")),
                money(position.get("realized"), signed=True),
                money(row["unmatched"]),
            ]
        )
    return rows


_LEG_HEADS = (
    Head("Market", "leads to its price and the evidence of its resolution"),
    Head("Leg"),
    Head("Stated", "probability that the side wins, as stated", number=True),
    Head("Bid", number=True),
    Head("Ask", number=True),
    Head("Price", number=True),
    Head("Shares", number=True),
    Head("Amount", number=True),
    Head("Position now"),
    Head("Winner"),
    Head("Side won"),
    Head("Gain", "of the position, without fees", number=True),
    Head("No counterparty", "dollars beyond the size at the best price of the other side", number=True),
)


def page(
    week: date, agent: dict[str, Any], decision: dict[str, Any], *, legs: list[list[Cell]], refused: Rows, texts: list[TextEntry]
) -> Iterator[File]:
    """Yield the page of an agent's decision in one week.

    week: first week of its cohort. legs: from `legs_of`. refused: rows of arena/refusals. texts: the decision's prompt and answers.
    """
    not_executed = [[number(row["leg"]), text(row["reason"].replace("_", " ")), text(row["message"], most=600)] for row in refused]
    prompts, answers = ([one for one in texts if (one.anchor == "prompt") == is_prompt] for is_prompt in (True, False))
    reasons = Text("Its reasoning", decision["reasoning"]) if decision["reasoning"] else Note("The model gave no reasoning.")
    wrong = [Text("Problem with the answer", decision["message"])] if decision["message"] else []
    parsed: Part = Note("The answer contains no decision.")
    if decision["decision"]:
        parsed = Text("Parsed decision, in JSON", _indent_json(decision["decision"]), open=False)
    refusals: Part = Note("No leg was refused.")
    if refused:
        refusals = PageTable("Legs that were not executed", [Head("Leg", number=True), Head("Reason"), Head("Details")], not_executed)
    sections = [
        Section("", [_headline(decision, legs, len(refused))]),
        Section("What the agent saw", [Texts("said", prompts) if prompts else Note("The warehouse has no prompt of this decision.")]),
        Section("What it answered", [reasons, *wrong, *([Texts("answers", answers)] if answers else [])]),
        Section("What was executed, and the result", [PageTable("Executed legs", _LEG_HEADS, legs)]),
        Section("What was refused", [refusals]),
        Section("The record", [parsed, columns.facts("arena/decisions", decision, _TEXTS)]),
    ]
    title = f"{agent['family']}: {text(decision['action'] or decision['state']).text}, {decision['week']}"
    above = [*ABOVE, (f"Cohort of {week}", cohort_path(week)), (agent["family"], agent_path(agent["agent_id"]))]
    lead = f"The decision of the week of {decision['week']}: {decision['legs']} legs, {len(legs)} executed, {len(refused)} refused."
    yield from render(Page(decision_path(decision["decision_id"]), title, lead, sections, above))


def _headline(decision: Mapping[str, Any], legs: list[list[Cell]], refused: int) -> Stats:
    staked = [float(leg[7].key) for leg in legs if leg[7].key is not None]
    # A position (market and side) counts once even if several legs trade it.
    gains = {(leg[0].href, leg[1].text.rpartition(" ")[2]): float(leg[11].key) for leg in legs if leg[11].key is not None}
    return Stats(
        [
            ("Action", text(decision["action"] or decision["state"]), decision["state"] if decision["action"] else ""),
            ("Cash before it", money(decision["cash"]), ""),
            ("Executed legs", number(len(legs)), f"of {decision['legs'] or 0}"),
            ("Refused legs", number(refused), ""),
            ("Traded", money(sum(staked)) if staked else Cell("–"), "of all executed legs"),
            (
                "Gain of the positions",
                money(sum(gains.values()), signed=True) if gains else Cell("–"),
                "over all decisions that traded them, without fees",
            ),
        ]
    )


def _indent_json(decision: str) -> str:
    """Indent a decision's JSON; a text that is not JSON is returned unchanged."""
    try:
        return orjson.dumps(orjson.loads(decision), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return decision
