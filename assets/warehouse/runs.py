"""What commands launch for the warehouse: its publication, where it is out of date."""

from __future__ import annotations

from assets.warehouse.jobs import PUBLISH
from bellwether.errors import BellwetherError
from orchestration.declare import key
from orchestration.runner import Runner

WAREHOUSE, SITE = key("summary/warehouse"), key("summary/site")


def publish(work: Runner) -> None:
    """Publish the warehouse, unless nothing has changed since it was published."""
    record = work.record()
    published = record.whole(WAREHOUSE)
    newest = max((record.whole(asset) or 0 for asset in work.assets if asset not in (WAREHOUSE, SITE)), default=0)
    if published is None or newest > published:
        work.launch(PUBLISH, "warehouse")
    else:
        work.stats.fresh += 1


def demo(work: Runner, days: int) -> dict[str, BellwetherError | None]:
    """Publish what the demo has made."""
    publish(work)
    return {}
