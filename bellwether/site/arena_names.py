"""Where the pages of the arena stand."""

from __future__ import annotations

from bellwether.site.values import slug


def family_path(family: str) -> str:
    """The page of a family."""
    return f"arena/family/{slug(family)}.html"


def cohort_path(week: object) -> str:
    """The page of a cohort."""
    return f"arena/cohort/{week}/index.html"


def agent_path(agent_id: str) -> str:
    """The page of an agent; its id is cohort/family."""
    week, _, family = agent_id.partition("/")
    return f"arena/cohort/{slug(week)}/{slug(family)}.html" if family else f"arena/cohort/agent/{slug(agent_id)}.html"


def decision_path(decision_id: str) -> str:
    """The page of a decision; its id is cohort/family/week."""
    week, _, rest = decision_id.partition("/")
    return f"arena/cohort/{slug(week)}/decision/{slug(rest)}.html"


def market_path(market_id: str) -> str:
    """The page of a market."""
    return f"arena/market/{slug(market_id)}.html"
