"""Reviews the lineup of new cohorts against the catalogue of models, and makes the rows of arena/review."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from bellwether.arena.families import families
from bellwether.arena.lineup import lineup
from bellwether.arena.records import dismissals
from bellwether.arena.review import Finding, State, catalogue, review
from bellwether.arena.weekly.means import World
from bellwether.tables.arena_lineups import REVIEW


def reviewed(world: World) -> list[Finding]:
    """What LiteLLM's price map and the registry have for the families of the registry. Raises `ConfigError` when either cannot be read."""
    from bellwether.models.prices import price_map
    from bellwether.models.registry import models

    known = models(world.registry)
    offers = catalogue(known, price_map(), world.now().date())
    chosen = lineup(world.lineup, world.registry)
    return review(families(known, world.registry).values(), offers, known, chosen.families, dismissals(world.records))


def review_rows(found: Sequence[Finding], at: datetime) -> pl.DataFrame:
    """Rows of arena/review. at: when it was reviewed."""
    from bellwether.models.prices import price_map_version

    return REVIEW.validate(REVIEW.frame([_row(one, price_map_version(), at) for one in found]))


def _row(found: Finding, version: str, at: datetime) -> dict[str, object]:
    offer = found.offers[0] if found.state is State.UPGRADE else None
    return {
        "family": found.family.name,
        "title": found.family.title,
        "competes": found.competes,
        "model": found.current,
        "model_id": found.current_id,
        "state": str(found.state),
        "offers": [one.model_id for one in found.offers],
        "input_price": offer and offer.input_price,
        "output_price": offer and offer.output_price,
        "reason": found.reason,
        "catalogue": version,
        "known_at": at,
    }
