"""Jobs of the venues: selections of assets that users and schedules launch together.

Concept: https://docs.dagster.io/guides/build/jobs
"""

from __future__ import annotations

import dagster as dg

from assets.venues.clean import CLEAN_TABLES
from assets.venues.raw import ARCHIVE_TABLES, DAY_TABLES, SERIES_TABLES
from assets.venues.recordings import RECORDING_TABLES
from orchestration.asset_declarations import select
from orchestration.checks import LAKE_CHECKS

#: The list of series, which belongs to no day.
SERIES = dg.define_asset_job("series", select(*SERIES_TABLES), description="Pull the list of series.")
#: Markets at the historical endpoints of the venue, for days before its cutoff.
ARCHIVE = dg.define_asset_job("archive", select(*ARCHIVE_TABLES), description="Scan the venue's archive of settled markets.")
#: A day from pull to checked clean rows.
DAYS = dg.define_asset_job(
    "days", select(*DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS, description="Pull, clean and check UTC days of all venues."
)
#: The same with the list of series, if none is stored.
DAILY = dg.define_asset_job(
    "daily",
    select(*SERIES_TABLES, *DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS,
    description="Pull, clean and check a UTC day of all venues, with the list of series if none is stored.",
)
#: A recording of a stream.
RECORDINGS = dg.define_asset_job("recordings", select(*RECORDING_TABLES), description="Store a recording and its gap report in the lake.")

JOBS = (SERIES, ARCHIVE, DAYS, DAILY, RECORDINGS)
