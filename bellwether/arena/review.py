"""The weekly review of lineups: which later release of a family the catalogue of models has. It proposes, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bellwether.arena.families import Family, prices

if TYPE_CHECKING:
    from bellwether.models.model import Model

#: Fragments of the ids of models that are no competitors of any family.
NEVER = (
    *("audio", "code", "computer-use", "embed", "free", "guard", "image", "live", "moderation"),
    *("realtime", "robotics", "search", "speech", "transcribe", "tts", "vision"),
)
#: Date stamps within ids: 2026-02-15, 20260215, 12-2025, 0905.
_STAMP = re.compile(r"[-@](?:20\d\d-\d\d-\d\d|20\d{6}|\d\d-20\d\d|\d{4})(?=$|[-:@])")
#: The first number of an id, in parts: 5.2, 4-5, 3p2; not the 235 of 235b.
_VERSION = re.compile(r"(?<!\d)\d{1,2}(?:[.p-]\d{1,2})*(?![\db])")
_MILLION = 1_000_000


class State(StrEnum):
    """Result of a review of a family: UPGRADE: one later release, with prices. NEEDS_REVIEW: several, or one without prices. DISMISSED: operators
    have dismissed every later one."""

    UNCHANGED = "unchanged"
    UPGRADE = "upgrade"
    NEEDS_REVIEW = "needs_review"
    DISMISSED = "dismissed"


@dataclass(frozen=True)
class Offer:
    """A model of the catalogue. model_id: provider/id. Prices are dollars per million tokens; None is unknown."""

    model_id: str
    input_price: Decimal | None = None
    output_price: Decimal | None = None

    @property
    def provider(self) -> str:
        """Prefix of the id."""
        return self.model_id.partition("/")[0]

    @property
    def stem(self) -> str:
        """The id without its path and date stamps, in lower case."""
        return _STAMP.sub("", self.model_id.rpartition("/")[2].lower())

    @property
    def version(self) -> tuple[int, ...]:
        """The version that the id names, part by part, without zeros at the end; empty when it names none."""
        found = _VERSION.search(self.stem)
        parts = [int(part) for part in re.split(r"[.p-]", found[0])] if found else []
        while parts and parts[-1] == 0:
            parts.pop()
        return tuple(parts)


@dataclass(frozen=True)
class Finding:
    """Finding of a review for a family. current: its release now. competes: in the lineup. offers: what is proposed, or is to be chosen from."""

    family: Family
    current: str
    current_id: str
    competes: bool
    state: State
    offers: tuple[Offer, ...] = ()

    @property
    def reason(self) -> str:
        """The state in words."""
        if self.state is State.UPGRADE:
            return "one later release, with prices"
        if self.state is State.NEEDS_REVIEW:
            return "the later release has no price" if len(self.offers) == 1 else f"{len(self.offers)} later releases of the same version"
        return "every later release was dismissed" if self.state is State.DISMISSED else "no later release"


def catalogue(models: Mapping[str, Model], entries: Mapping[str, Mapping[str, Any]], today: date) -> list[Offer]:
    """The models that can be called: chat models of LiteLLM's price map (`entries`) that are not retired, and those of the registry, by id."""
    found: dict[str, Offer] = {}
    for name, entry in entries.items():
        provider = entry.get("litellm_provider")
        if provider and entry.get("mode") in ("chat", "responses") and not _is_retired(entry, today):
            offer_id = name if name.startswith(f"{provider}/") else f"{provider}/{name}"
            rates = (entry.get("input_cost_per_token"), entry.get("output_cost_per_token"))
            put_in, out = (None if rate is None else Decimal(str(rate)) * _MILLION for rate in rates)
            found[offer_id] = Offer(offer_id, put_in, out)
    for model in models.values():
        priced = prices(None, model)
        if priced is not None:
            found[model.model] = Offer(model.model, *priced[:2])
    return [found[name] for name in sorted(found)]


def review(
    families: Iterable[Family],
    offers: Collection[Offer],
    models: Mapping[str, Model],
    members: Mapping[str, str],
    dismissed: Collection[tuple[str, str]] = (),
) -> list[Finding]:
    """Findings for each family whose releases can be recognised; controls stay.

    models: of the registry. members: of the lineup, by family; a family outside of it is compared by its newest release. dismissed: pairs of a family
    and a model's id.
    """
    found = []
    for family in families:
        if family.has and not family.control:
            current = members.get(family.name) or next(reversed(family.releases))
            state, proposed = _found(family, models[current].model, offers, {one for name, one in dismissed if name == family.name})
            found.append(Finding(family, current, models[current].model, family.name in members, state, proposed))
    return found


def _found(family: Family, current_id: str, offers: Iterable[Offer], dismissed: Collection[str]) -> tuple[State, tuple[Offer, ...]]:
    now = Offer(current_id).version
    later = [one for one in offers if _is_of(family, one) and one.version > now]
    left = [one for one in later if one.model_id not in dismissed]
    if not left:
        return (State.DISMISSED if later else State.UNCHANGED), ()
    newest = max(one.version for one in left)
    # A dated id and its alias are one release, and the dated one names it.
    exact = {one.stem: one for one in sorted(left, key=lambda one: (len(one.model_id), one.model_id)) if one.version == newest}
    chosen = tuple(exact[stem] for stem in sorted(exact))
    priced = chosen[0].input_price is not None and chosen[0].output_price is not None
    return (State.UPGRADE if len(chosen) == 1 and priced else State.NEEDS_REVIEW), chosen


def _is_of(family: Family, offer: Offer) -> bool:
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


def advice(finding: Finding) -> str:
    """Entries of the registry with which later cohorts use the proposed release, as TOML."""
    (offer,) = finding.offers
    name = re.sub(r"[^a-z0-9._-]", "-", offer.model_id.rpartition("/")[2].lower())
    return (
        f'# models.toml\n["{name}"]\nmodel = "{offer.model_id}"\ninput_price = {_plain(offer.input_price)}\noutput_price = {_plain(offer.output_price)}\nknowledge_cutoff = …  # the day its provider states\n'
        f'# families.toml\n[{finding.family.name}.releases."{name}"]\nreleased = …  # the day of its release\n'
        f'# lineups.toml\n{finding.family.name} = "{name}"\n'
    )


def _plain(price: Decimal | None) -> str:
    """A price without zeros at its end; a gap to fill in where it is not known."""
    return "…" if price is None else f"{price.normalize():f}"
