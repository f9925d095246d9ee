"""Runs that commands launch to publish: the warehouse, the site, and Data Docs (Great Expectations' report), where they are out of date."""

from __future__ import annotations

from assets.summary import jobs
from bellwether.errors import BellwetherError
from bellwether.lake.warehouse import publication_time, tables_written_since
from bellwether.settings import settings
from bellwether.site import read_site_state, read_warehouse_state
from orchestration.checks import OPERATIONS
from orchestration.runner import Runner


def publish(work: Runner) -> None:
    """Publish the warehouse if it is out of date. A site that was built before is rebuilt if it is out of date."""
    database = work.resource("warehouse").database
    if tables_written_since(work.lake, database):
        work.launch(jobs.PUBLISH, "warehouse", config={"ops": {"summary__warehouse": {"config": {"vacuum": False}}}})
    else:
        work.stats.fresh += 1
    if _is_site_outdated():
        work.launch(jobs.SITE, "site")


def demo(work: Runner, days: int) -> dict[str, BellwetherError | None]:
    """Publish the demo's tables, validate them with Great Expectations, and run the checks of the whole lake. days: not used."""
    publish(work)
    if _are_data_docs_outdated(work.resource("warehouse").database):
        work.launch(jobs.DATA_DOCS, "data docs")
        work.launch(OPERATIONS, "checks of the whole lake")
    else:
        work.stats.fresh += 1
    return {}


def _are_data_docs_outdated(database: str) -> bool:
    """Return True if Data Docs are missing or older than the published warehouse. database: path of the warehouse."""
    index = settings().data_docs_path / "index.html"
    published = publication_time(database)
    return not index.exists() or (published is not None and index.stat().st_mtime < published.timestamp())


def _is_site_outdated() -> bool:
    """Return True if a site was built before and is out of date. False without a site."""
    built = read_site_state(settings().site_path)
    return built is not None and built != read_warehouse_state(settings().warehouse_uri)
