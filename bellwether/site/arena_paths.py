"""Paths of the arena's pages from the root of the site, and cells that link to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bellwether.pages.model import Cell
from bellwether.pages.values import slug, text

#: The pages above those of a cohort.
ABOVE = [("Arena", "arena/index.html")]


def family_path(family: str) -> str:
    """Return the path of the page of a family."""
    return f"arena/family/{slug(family)}.html"


def cohort_path(week: object) -> str:
    """Return the path of the page of a cohort."""
    return f"arena/cohort/{week}/index.html"


def archive_path(week: object) -> str:
    """Return the path of the zip archive of a cohort's rows."""
    return f"arena/cohort/{week}/cohort.zip"


def agent_path(agent_id: str) -> str:
    """Return the path of an agent's page. Agent ids have the form cohort/family."""
    week, _, family = agent_id.partition("/")
    return f"arena/cohort/{slug(week)}/{slug(family)}.html" if family else f"arena/cohort/agent/{slug(agent_id)}.html"


def decision_path(decision_id: str) -> str:
    """Return the path of a decision's page. Decision ids have the form cohort/family/week."""
    week, _, rest = decision_id.partition("/")
    return f"arena/cohort/{slug(week)}/decision/{slug(rest)}.html"


def market_path(market_id: str) -> str:
    """Return the path of the page of a market."""
    return f"arena/market/{slug(market_id)}.html"


def market_cell(questions: Mapping[str, str], market_id: str) -> Cell:
    """Format the question of a market with a link to its page."""
    return text(questions.get(market_id, market_id), market_path(market_id), most=110)


def refused_cell(reasons: Sequence[str]) -> Cell:
    """Format the number of refused legs (bets or sales of a decision). reasons: one per leg, shown as a tooltip."""
    found = [reason.replace("_", " ") for reason in reasons]
    return text(f"{len(found)}: {', '.join(dict.fromkeys(found))}" if found else "none", most=80)
