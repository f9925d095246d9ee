"""Runs of the arena that commands launch: weeks in order, then what is out of date: evidence (facts about resolutions), marks (prices of
positions), results.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import polars as pl

from assets.arena import jobs
from assets.arena.assets import BOOK_TABLES, DECIDED_TABLES, RANKING_TABLES, read_submissions
from assets.arena.queries import open_arena
from bellwether.arena.decision import FINAL
from bellwether.arena.history import LATEST
from bellwether.arena.identity import WEEK, week_of
from bellwether.arena.records import Intervention, InterventionKind
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.errors import BellwetherError
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.tables.arena import DECISION_VERSIONS
from orchestration.partitions import group_days
from orchestration.runner import Runner

#: Weeks of the demo; all of their markets are resolved.
DEMO_WEEKS = 8
#: Options that choose the cohort of a week.
COHORT = ("lineup", "methodology")
#: Weeks of one run.
MOST_WEEKS = 53
_RESOLVED = LATEST + timedelta(days=7)


def run_weeks(work: Runner, weeks: Sequence[date], **config: Any) -> BellwetherError | None:
    """Run unfinished weeks in order, then update evidence, marks (prices of positions) and results.

    config: options of the weekly step: lineup, methodology, dollars.
    Returns the error if the current marks could not be stored; everything else is complete then.
    """
    due = [week.isoformat() for week in sorted(weeks) if _is_unfinished(work, week)]
    work.stats.fresh += len(weeks) - len(due)
    stated = {name: value for name, value in config.items() if value is not None}
    options = {
        "ops": {"week": {"config": stated}, "arena__universe": {"config": {name: stated[name] for name in COHORT if name in stated}}}
    }
    with work.progress.stage("arena weeks", len(due)) as advance:
        for span in _group_weeks(due):
            work.launch(jobs.WEEKS, f"arena weeks {span[0]} to {span[-1]}", partitions=span, config=options)
            advance(len(span))
    return update_results(work, present=week_of(settings().now()) in weeks)


def apply_intervention(work: Runner, intervention: Intervention) -> None:
    """Rebuild the tables that a recorded intervention of an operator changes, and update the results."""
    if intervention.kind is InterventionKind.CANCEL:
        week = week_of(intervention.at).isoformat()
        work.launch(jobs.EVIDENCE, f"arena evidence of {week}", partitions=[week])
    else:
        week = intervention.subject.partition("/")[0]
        work.launch(jobs.AGENTS, f"arena agents of {week}", partitions=[week])
    update_results(work)


def poll_market(work: Runner, market_id: str) -> None:
    """Query the venue about a market now, and update the results."""
    week = week_of(settings().now()).isoformat()
    work.launch(jobs.EVIDENCE, f"arena evidence of {week}", partitions=[week], config={"ops": {"week": {"config": {"asked": [market_id]}}}})
    update_results(work)


def update_results(work: Runner, *, present: bool = False) -> BellwetherError | None:
    """Update evidence, marks (prices of positions) and results where they are out of date. present: also store current prices.

    Returns the error if the current marks could not be stored; the next hourly run stores them.
    """
    _collect_evidence(work)
    _reconstruct_marks(work)
    # In a fleet the schedule stores marks.
    failed = _store_marks() if present and settings().fleet is None else None
    if work.due((*BOOK_TABLES, "arena/submissions", *RANKING_TABLES)) or _has_new_submissions(work):
        work.launch(jobs.BOOKS, "arena books")
    else:
        work.stats.fresh += 1
    return failed


def _store_marks() -> BellwetherError | None:
    """Store the current prices of positions. Returns the error if that failed, else None."""
    try:
        with open_arena(run="marks") as world:
            store_tick(world)
    except BellwetherError as error:
        return error
    return None


def _has_new_submissions(work: Runner) -> bool:
    """Return True if arena/submissions differs from the forecasts submitted so far."""
    universe, stored = (work.lake.slice(table(name), missing="skip").read() for name in ("arena/universe", "arena/submissions"))
    return not read_submissions(universe).equals(stored)


def demo(work: Runner, days: int) -> dict[str, BellwetherError | None]:
    """Run the latest weeks of the sandbox whose markets are all resolved. days: not used, since the number of weeks is fixed."""
    last = week_of(settings().now() - _RESOLVED)
    failed = run_weeks(work, [last - number * WEEK for number in reversed(range(DEMO_WEEKS))])
    return {"arena": failed} if failed else {}


def _is_unfinished(work: Runner, week: date) -> bool:
    """Return True if a week must run: it is the current week, lacks a table, or has an open decision, or the rows of agents are damaged."""
    name = week.isoformat()
    # Weeks of older versions have no earlier states.
    needed = {"arena/universe", *DECIDED_TABLES} - {DECISION_VERSIONS.name}
    if any((name,) not in work.lake.intact_manifests(table(required)) for required in needed):
        return True
    agents = work.lake.slice(table("arena/agents"), missing="skip")
    if agents.damaged():
        return True
    closed = agents.read().filter(pl.col("closed_at").is_not_null())
    rows = work.lake.slice(table("arena/decisions"), [(name,)]).read().join(closed, on="agent_id", how="anti")
    return week == week_of(settings().now()) or bool(set(rows["state"]) - set(map(str, FINAL)))


def _collect_evidence(work: Runner) -> None:
    """Collect the evidence of each week, from the first cohort's on, whose evidence is missing or older than the trades so far."""
    traded = work.lake.manifests(table("arena/trades"))
    if not traded:
        return
    present, first = week_of(settings().now()), date.fromisoformat(min(traded)[0])
    weeks = [((first + number * WEEK).isoformat(),) for number in range((present - first).days // 7 + 1)]
    for span in _group_weeks([week for (week,) in work.due(("arena/evidence",), weeks)]):
        work.launch(jobs.EVIDENCE, f"arena evidence of {span[0]} to {span[-1]}", partitions=span)


def _group_weeks(weeks: Sequence[str]) -> list[list[str]]:
    """Group consecutive weeks into lists, one for each run."""
    spans = group_days(weeks, most=MOST_WEEKS, step=WEEK)
    return [[week for week in sorted(weeks) if first <= week <= last] for first, last in spans]


def _reconstruct_marks(work: Runner) -> None:
    """Compute outdated marks (prices of positions) of past days, from the first reconstructed cohort on."""
    agents = work.lake.slice(table("arena/agents"), missing="skip").read()
    weeks = agents.filter("reconstructed")["week"]
    if weeks.is_empty():
        return
    first, today = weeks.min(), settings().now().date()
    assert isinstance(first, date)
    days = [(first + timedelta(days=number)).isoformat() for number in range((today - first).days)]
    due = [day for (day,) in work.due(("arena/prices",), [(day,) for day in days])]
    for start, end in group_days(due):
        work.launch(jobs.MARKS, f"arena marks {start} to {end}", partitions=[day for day in due if start <= day <= end])
