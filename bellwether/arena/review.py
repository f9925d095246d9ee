"""Weekly review of families: which newer models (offers) could replace the model that represents a family now."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bellwether.arena.families import Family, find_prices

if TYPE_CHECKING:
    from bellwether.models.model import Model

#: Fragments of ids of models that are never proposed.
NEVER = (
    *("audio", "code", "computer-use", "embed", "free", "guard", "image", "live", "moderation"),
    *("realtime", "robotics", "search", "speech", "transcribe", "tts", "vision"),
)
#: Date stamps in ids: 2026-02-15, 20260215, 12-2025, 0905.
_STAMP = re.compile(r"[-@](?:20\d\d-\d\d-\d\d|20\d{6}|\d\d-20\d\d|\d{4})(?=$|[-:@])")
#: First version number of an id: 5.2, 4-5, 3p2; not the 235 of 235b.
_VERSION = re.compile(r"(?<!\d)\d{1,2}(?:[.p-]\d{1,2})*(?![\db])")
_MILLION = 1_000_000


class ReviewState(StrEnum):
    """Result of the review of a family.

    UPGRADE: one later release, with prices. NEEDS_REVIEW: several later releases, or one without prices. DISMISSED: operators dismissed all
    later releases.
    """

    UNCHANGED = "unchanged"
    UPGRADE = "upgrade"
    NEEDS_REVIEW = "needs_review"
    DISMISSED = "dismissed"


@dataclass(frozen=True)
class Offer:
    """An available model, which may be a later release of a family. model_id: provider/id. Prices are dollars per million tokens; None if
    unknown.
    """

    model_id: str
    input_price: Decimal | None = None
    output_price: Decimal | None = None

    @property
    def provider(self) -> str:
        """Provider, the prefix of the id."""
        return self.model_id.partition("/")[0]

    @property
    def stem(self) -> str:
        """Last part of the id without date stamps, in lower case."""
        return _STAMP.sub("", self.model_id.rpartition("/")[2].lower())

    @property
    def version(self) -> tuple[int, ...]:
        """Version in the id as numbers, without trailing zeros; empty if the id has none."""
        match = _VERSION.search(self.stem)
        parts = [int(part) for part in re.split(r"[.p-]", match[0])] if match else []
        while parts and parts[-1] == 0:
            parts.pop()
        return tuple(parts)


@dataclass(frozen=True)
class ReviewFinding:
    """Result of the review of a family. current, current_id: name and id of the model that represents the family now. competes: whether the
    family is in the lineup. offers: later releases.
    """

    family: Family
    current: str
    current_id: str
    competes: bool
    state: ReviewState
    offers: tuple[Offer, ...] = ()

    @property
    def reason(self) -> str:
        """Why the family has this state, as text."""
        if self.state is ReviewState.UPGRADE:
            return "one later release, with prices"
        if self.state is ReviewState.NEEDS_REVIEW:
            return (
                "one later release, without a price" if len(self.offers) == 1 else f"{len(self.offers)} later releases of the same version"
            )
        return "all later releases were dismissed" if self.state is ReviewState.DISMISSED else "no later release"


def list_offers(models: Mapping[str, Model], entries: Mapping[str, Mapping[str, Any]], today: date) -> list[Offer]:
    """List available models by id: chat models of LiteLLM's price map (`entries`) that are not retired, and models of the registry."""
    offers: dict[str, Offer] = {}
    for name, entry in entries.items():
        provider = entry.get("litellm_provider")
        if provider and entry.get("mode") in ("chat", "responses") and not _is_retired(entry, today):
            offer_id = name if name.startswith(f"{provider}/") else f"{provider}/{name}"
            rates = (entry.get("input_cost_per_token"), entry.get("output_cost_per_token"))
            put_in, out = (None if rate is None else Decimal(str(rate)) * _MILLION for rate in rates)
            offers[offer_id] = Offer(offer_id, put_in, out)
    for model in models.values():
        priced = find_prices(None, model)
        if priced is not None:
            offers[model.model] = Offer(model.model, *priced[:2])
    return [offers[name] for name in sorted(offers)]


def review_families(
    families: Iterable[Family],
    offers: Collection[Offer],
    models: Mapping[str, Model],
    members: Mapping[str, str],
    dismissed: Collection[tuple[str, str]] = (),
) -> list[ReviewFinding]:
    """Look for later releases of each family that states how to recognise them (`Family.has`). Control families, which never change, are skipped.

    models: of the registry. members: of the lineup by family; other families are compared by their latest release. dismissed: (family, model
    id).
    """
    findings = []
    for family in families:
        if family.has and not family.control:
            current = members.get(family.name) or next(reversed(family.releases))
            state, proposed = _classify_offers(
                family, models[current].model, offers, {release for name, release in dismissed if name == family.name}
            )
            findings.append(ReviewFinding(family, current, models[current].model, family.name in members, state, proposed))
    return findings


def _classify_offers(
    family: Family, current_id: str, offers: Iterable[Offer], dismissed: Collection[str]
) -> tuple[ReviewState, tuple[Offer, ...]]:
    current = Offer(current_id).version
    later = [offer for offer in offers if _is_offer_of(family, offer) and offer.version > current]
    remaining = [offer for offer in later if offer.model_id not in dismissed]
    if not remaining:
        return (ReviewState.DISMISSED if later else ReviewState.UNCHANGED), ()
    newest = max(offer.version for offer in remaining)
    # A dated id and its alias are one release, named by the dated id.
    distinct = {
        offer.stem: offer for offer in sorted(remaining, key=lambda offer: (len(offer.model_id), offer.model_id)) if offer.version == newest
    }
    chosen = tuple(distinct[stem] for stem in sorted(distinct))
    priced = chosen[0].input_price is not None and chosen[0].output_price is not None
    return (ReviewState.UPGRADE if len(chosen) == 1 and priced else ReviewState.NEEDS_REVIEW), chosen


def _is_offer_of(family: Family, offer: Offer) -> bool:
    name = offer.model_id.rpartition("/")[2].lower()
    return (
        offer.provider == family.provider
        and all(part in name for part in family.has)
        and not any(part in name for part in (*NEVER, *family.without))
    )


def _is_retired(entry: Mapping[str, Any], today: date) -> bool:
    try:
        return date.fromisoformat(str(entry.get("deprecation_date"))) <= today
    except ValueError:
        return False


def render_advice(finding: ReviewFinding) -> str:
    """Return the registry entries (TOML) that adopt the proposed release for later cohorts. finding: with exactly one offer."""
    (offer,) = finding.offers
    name = re.sub(r"[^a-z0-9._-]", "-", offer.model_id.rpartition("/")[2].lower())
    return (
        f'# models.toml\n["{name}"]\nmodel = "{offer.model_id}"\ninput_price = {_price_text(offer.input_price)}\noutput_price = {_price_text(offer.output_price)}\nknowledge_cutoff = …  # the day its provider states\n'
        f'# families.toml\n[{finding.family.name}.releases."{name}"]\nreleased = …  # the day of its release\n'
        f'# lineups.toml\n[YOUR_LINEUP.families]\n{finding.family.name} = "{name}"\n'
    )


def _price_text(price: Decimal | None) -> str:
    """Return a price without trailing zeros, or a placeholder if it is unknown."""
    return "…" if price is None else f"{price.normalize():f}"
