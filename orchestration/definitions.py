"""The code location: assets, checks, jobs, clocks and resources, wired from the settings.

Not here: any logic. Nothing heavy is imported on the way: every step of a run pays for what this module loads.
Concept: https://docs.dagster.io/guides/build/projects-and-components
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg

warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

from assets import benchmark, clean, publication, raw, recordings, replay, summary  # noqa: E402
from bellwether.settings import Settings, Venue, settings  # noqa: E402
from orchestration.checks import all_checks  # noqa: E402
from orchestration.history import PRUNE  # noqa: E402
from orchestration.jobs import JOBS  # noqa: E402
from orchestration.progress import progress  # noqa: E402
from orchestration.schedules import SCHEDULES  # noqa: E402
from orchestration.sensors import SENSORS  # noqa: E402
from resources import LakeIOManager, LakeResource, ModelsResource, WarehouseResource  # noqa: E402
from resources.episodes import EpisodesResource  # noqa: E402
from resources.journal import JournalResource  # noqa: E402
from resources.recordings import RecordingsResource  # noqa: E402
from resources.reports import ReportsResource  # noqa: E402
from resources.venues import KalshiVenue, PolymarketVenue, WorldResource  # noqa: E402

#: A spawned step imports everything anew (seconds); a forked one finds it loaded.
EXECUTOR = dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": {"forkserver": {"preload_modules": [__name__]}}})


#: The groups of the asset graph, from left to right, and where results are.
ORIENTATION = """\
- **raw**: what the venues sent, typed, one partition per UTC day; rejects and pulls say what did not fit and what a pull took
- **clean**: markets of both venues with their outcomes, and prices at points in time
- **benchmark**: releases of questions; forecasts, scores and a leaderboard. Begin with `benchmark/leaderboard`: its figure is in the latest materialization
- **replay**: recorded episodes, what agents earn in them, and how they compare (`replay/summary`)
- **summary**: the published DuckDB file

To ask a model, materialize a partition of `benchmark/forecasts` (a release and a forecaster); `bellwether models` lists which have a key. To pull days, launch the
job `days`. Automation makes the rest; runs that you launch go before it."""


def resources(config: Settings) -> dict[str, Any]:
    """The resources of a world."""
    lake, world, journal = LakeResource(uri=config.lake_uri), WorldResource.of(config), JournalResource()
    sample = {"candle_days": config.candle_days, "candle_markets": config.candle_markets}
    return {
        "lake": lake,
        "io_manager": LakeIOManager(lake=lake),
        "warehouse": WarehouseResource(path=str(config.warehouse_path)),
        "world": world,
        "journal": journal,
        "models": ModelsResource(world=world, journal=journal),
        "recordings": RecordingsResource(path=str(config.recordings_path)),
        "store": EpisodesResource(path=str(config.episodes_path), tapes=str(config.tapes_path)),
        "reports": ReportsResource(uri=config.reports_uri),
        "kalshi": KalshiVenue(
            world=world, asked=Venue.KALSHI in config.venues, tokens_per_second=config.kalshi_tokens_per_second, **sample
        ),
        "polymarket": PolymarketVenue(world=world, asked=Venue.POLYMARKET in config.venues, **sample),
    }


def orientation(config: Settings) -> dict[str, Any]:
    """What a newcomer needs first, on the page of the code location."""
    return {
        "start here": dg.MetadataValue.md(ORIENTATION),
        "world": str(config.world),
        "warehouse": dg.MetadataValue.path(str(config.warehouse_path)),
        "reports": dg.MetadataValue.text(config.reports_uri),
    }


def build_defs(*, config: Settings | None = None, resource_overrides: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions of the platform; production, the command line and tests differ in resources only."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([raw, recordings, clean, benchmark, publication, replay, summary]),
        asset_checks=all_checks(),
        jobs=(*JOBS, PRUNE),
        schedules=SCHEDULES,
        sensors=SENSORS,
        metadata=orientation(config or settings()),
        executor=EXECUTOR,
        loggers={"console": dg.colored_console_logger, "progress": progress},
        resources={**resources(config or settings()), **(resource_overrides or {})},
    )


defs = build_defs()
