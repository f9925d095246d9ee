"""Jobs of the venues: asset selections that users and schedules launch.

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
#: What the venue has moved to its historical endpoints: needed for days before the venue's cutoff.
ARCHIVE = dg.define_asset_job("archive", select(*ARCHIVE_TABLES), description="Scan the venue's archive of settled markets.")
#: A day from the venue to its clean rows, with their checks.
DAYS = dg.define_asset_job(
    "days", select(*DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS, description="Pull UTC days of all venues, clean and check them."
)
#: The same with the list of series that a day needs; a stored list is used as it is.
DAILY = dg.define_asset_job(
    "daily",
    select(*SERIES_TABLES, *DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS,
    description="Pull a UTC day of all venues with the list of series, unless that is stored; clean and check it.",
)
#: A recording of a stream.
RECORDINGS = dg.define_asset_job(
    "recordings", select(*RECORDING_TABLES), description="Take a recording into the lake, with its gap report."
)

JOBS = (SERIES, ARCHIVE, DAYS, DAILY, RECORDINGS)
