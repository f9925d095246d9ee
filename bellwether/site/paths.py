"""Paths of pages from the root of the site."""

from __future__ import annotations

from bellwether.pages.values import slug


def release_path(release: str) -> str:
    """Return the path of the page of a benchmark release."""
    return f"benchmark/{slug(release)}/index.html"


def question_path(release: str, question: str) -> str:
    """Return the path of the page of a question."""
    return f"benchmark/{slug(release)}/question/{slug(question)}.html"


def forecaster_path(release: str, forecaster: str) -> str:
    """Return the path of the page of a forecaster in a release."""
    return f"benchmark/{slug(release)}/forecaster/{slug(forecaster)}.html"


def episode_path(episode: str) -> str:
    """Return the path of the page of an episode."""
    return f"trading/episode/{slug(episode)}/index.html"


def run_path(episode: str, agent: str) -> str:
    """Return the path of the page of a trading agent in an episode."""
    return f"trading/episode/{slug(episode)}/agent/{slug(agent)}.html"


def trader_path(agent: str) -> str:
    """Return the path of the page of a trading agent."""
    return f"trading/agent/{slug(agent)}.html"


def family_path(family: str) -> str:
    """Return the path of the page of an arena family."""
    return f"arena/family/{slug(family)}.html"


def cohort_path(week: object) -> str:
    """Return the path of the page of a cohort."""
    return f"arena/cohort/{week}/index.html"


def agent_path(agent_id: str) -> str:
    """Return the path of an arena agent's page. Agent ids have the form cohort/family."""
    week, _, family = agent_id.partition("/")
    return f"arena/cohort/{slug(week)}/{slug(family)}.html" if family else f"arena/cohort/agent/{slug(agent_id)}.html"


def decision_path(decision_id: str) -> str:
    """Return the path of a decision's page. Decision ids have the form cohort/family/week."""
    week, _, rest = decision_id.partition("/")
    return f"arena/cohort/{slug(week)}/decision/{slug(rest)}.html"


def market_path(market_id: str) -> str:
    """Return the path of the page of an arena market."""
    return f"arena/market/{slug(market_id)}.html"


def download_path(name: str, kind: str) -> str:
    """Return the path of a downloadable table. name: as `group/name`. kind: `csv` or `parquet`."""
    return f"data/downloads/{name.replace('/', '.', 1)}.{kind}"


def table_path(name: str) -> str:
    """Return the path of the page of a table, given as `group.name`."""
    return f"data/table/{name}.html"
