"""Checks of the whole lake that only warn: age of the newest day, missing days, missing prices, and rejections for the rate limit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import partial

import polars as pl

from bellwether.checks.rule import LakeCheck, Observation
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.tables.raw import FAILURES
from bellwether.venues.http.retry import RATE_LIMIT

#: Maximum age of the newest day.
PATIENCE_DAYS = 2
#: Maximum of days that an observation names.
NAMED_DAYS = 10
#: Share of attempts that the venue may refuse for their rate.
TOLERATED_REFUSALS = 0.05
#: Column of attempts that were refused for their rate.
REFUSED = FAILURES[RATE_LIMIT]


def pulled_days(lake: Lake, venue: str) -> dict[date, int]:
    """Count the markets of `venue` on each day in clean/markets; 0 for days on which this venue has none."""
    declared = table("clean/markets")
    days = {date.fromisoformat(partition[0]): 0 for partition in lake.manifests(declared)}
    counted = lake.slice(declared).scan().filter(pl.col("venue") == venue).group_by("day").len().collect() if days else None
    return dict(sorted({**days, **dict(counted.iter_rows() if counted is not None else ())}.items()))


def _format_days(days: list[date]) -> str:
    listed = ", ".join(day.isoformat() for day in days[:NAMED_DAYS])
    return f"{listed} and {len(days) - NAMED_DAYS} more" if len(days) > NAMED_DAYS else listed


def _check_freshness(venue: str, lake: Lake, now: datetime) -> Observation:
    """Check that the newest day of `venue` is recent."""
    days = [day for day, markets in pulled_days(lake, venue).items() if markets]
    if not days:
        return Observation(True, f"no day of {venue} has been pulled yet", {"newest day": "none"})
    age = (now.date() - days[-1]).days
    numbers: dict[str, int | float | str] = {"newest day": days[-1].isoformat(), "age (days)": age}
    return Observation(age <= PATIENCE_DAYS, f"the newest day of {venue} is {days[-1]}, {age} days before the present", numbers)


def _check_completeness(venue: str, lake: Lake, now: datetime) -> Observation:
    """Check that every day between the first and the last has markets of `venue`."""
    counts = pulled_days(lake, venue)
    held = [day for day, markets in counts.items() if markets]
    if not held:
        return Observation(True, f"no day of {venue} has been pulled yet", {"days": 0})
    span = [held[0] + timedelta(days=offset) for offset in range((held[-1] - held[0]).days + 1)]
    missing, empty = [day for day in span if day not in counts], [day for day in span if counts.get(day) == 0]
    numbers: dict[str, int | float | str] = {"days": len(held), "not pulled": len(missing), "without markets": len(empty)}
    wrong = [f"not pulled: {_format_days(missing)}"] * bool(missing) + [f"without markets: {_format_days(empty)}"] * bool(empty)
    return Observation(not wrong, "; ".join(wrong) or f"every day from {held[0]} to {held[-1]} has markets of {venue}", numbers)


def _check_prices(venue: str, lake: Lake, now: datetime) -> Observation:
    """Check that every day of `venue` with outcomes has prices."""
    priced = lake.slice(table("clean/prices")).scan().select("day", "venue", "market_id").unique().with_columns(priced=True)
    days = (
        lake.slice(table("clean/markets"))
        .scan()
        .filter((pl.col("venue") == venue) & pl.col("outcome").is_not_null() & ~pl.col("is_combo"))
        .select("day", "venue", "market_id")
        .join(priced, on=("day", "venue", "market_id"), how="left")
        .group_by("day")
        .agg(markets=pl.len(), priced=pl.col("priced").fill_null(False).sum())
        .sort("day")
        .collect()
    )
    without = days.filter(pl.col("priced") == 0)["day"].to_list()
    markets, priced_markets = int(days["markets"].sum()), int(days["priced"].sum())
    numbers: dict[str, int | float | str] = {
        "markets with an outcome": markets,
        "of these with prices": priced_markets,
        "share with prices": round(priced_markets / markets, 4) if markets else 0.0,
    }
    summary = f"{priced_markets} of {markets} markets of {venue} with an outcome have prices"
    return Observation(not without, f"{summary}; days without any: {_format_days(without)}" if without else summary, numbers)


def _check_rate_limit(venue: str, lake: Lake, now: datetime) -> Observation:
    """Check that `venue` rejected only few requests for their rate."""
    pulls = lake.slice(table(f"raw/{venue}_pulls")).scan().collect()
    attempts, refused = int(pulls["attempts"].sum()), int(pulls[REFUSED].sum())
    waited = round(float(pulls["limited_seconds"].sum()), 1)
    numbers: dict[str, int | float | str] = {
        "pulls": pulls.height,
        "attempts": attempts,
        "refused for the rate": refused,
        "seconds waited for the rate": waited,
    }
    summary = f"pulls of {venue} waited {waited:g} s for the rate limit, summed over calls side by side; {refused} of {attempts} attempts were refused for it"
    return Observation(refused <= TOLERATED_REFUSALS * attempts, summary, numbers)


VENUES = ("kalshi", "polymarket")


def _lake_checks() -> Iterator[LakeCheck]:
    for venue in VENUES:
        name = venue.capitalize()
        yield LakeCheck(
            f"{venue}_is_fresh",
            "clean/markets",
            f"{name}'s newest day is at most {PATIENCE_DAYS} days old",
            partial(_check_freshness, venue),
        )
        yield LakeCheck(
            f"{venue}_days_are_complete",
            "clean/markets",
            f"no day of {name} between the first and the last lacks markets",
            partial(_check_completeness, venue),
        )
        yield LakeCheck(
            f"{venue}_markets_have_prices", "clean/prices", f"every day of {name} with outcomes has prices", partial(_check_prices, venue)
        )
        yield LakeCheck(
            f"{venue}_rate_limit_time",
            f"raw/{venue}_pulls",
            f"{name} refuses at most {TOLERATED_REFUSALS:.0%} of the attempts for their rate",
            partial(_check_rate_limit, venue),
        )


LAKE_CHECKS: tuple[LakeCheck, ...] = tuple(_lake_checks())
