"""Series of the generated world: `catalogue.toml` defines families of questions, with one series per entity, such as a city or a coin.

A ladder asks whether a quantity exceeds each of several strikes; brackets ask which of several ranges it falls into.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["single", "ladder", "brackets", "contest"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Quantity about which the markets of a ladder or of brackets ask, in the unit of the question."""

    centre: tuple[float, float]
    spread: float
    step: Decimal
    prefix: str = ""
    suffix: str = ""
    decimals: int = 0

    def text(self, value: Decimal, digits: int = 0) -> str:
        """Format a value as in the question, with `digits` more decimals."""
        return f"{self.prefix}{value:,.{self.decimals + digits}f}{self.suffix}"


@dataclass(frozen=True, slots=True)
class QuestionFamily:
    """Template of questions; `catalogue.toml` documents each field."""

    prefix: str
    category: str
    kind: Kind
    series: str
    event: str
    question: str
    claim: str
    source: str
    life: tuple[int, int]
    hours: tuple[int, int]
    options: tuple[str, ...] = ()
    number: Quantity | None = None
    early: Literal["", "result", "deadline"] = ""
    pace: int = 1
    pair: bool = False

    @property
    def late(self) -> bool:
        """True if markets close between midnight and 6:00 UTC, so that texts name the previous, American day."""
        return self.hours[0] < 6

    @property
    def sources(self) -> list[dict[str, str]]:
        """Sources that decide the outcome, in the format of the venue."""
        name, _, url = self.source.partition("|")
        return [{"name": name, "url": url}]


@dataclass(frozen=True, slots=True)
class QuestionSeries:
    """Series of questions about one entity. scale: factor for the numbers of the family, such as a coin's price."""

    ticker: str
    family: QuestionFamily
    name: str
    scale: Decimal

    @property
    def title(self) -> str:
        """Title of the series."""
        return self.family.series.format(name=self.name)


def build_code(name: str, length: int) -> str:
    """Build a part of a ticker from the letters and digits of a name, without accents, or from its code points if it has no Latin letters."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    code = "".join(letter for letter in plain.upper() if letter.isalnum())[:length]
    return code or "".join(f"{ord(letter):X}" for letter in name if letter.isalnum())[: 2 * length]


def _family(entry: dict[str, Any], pools: Mapping[str, list[str]]) -> tuple[QuestionFamily, list[str]]:
    """Build a family from its entry in the catalogue; return it with its entities."""
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items() if name != "entities"
    }
    plain["options"] = tuple(pools[entry["options"]]) if "options" in entry else ()
    if number := entry.get("number"):
        centre = (float(number["centre"][0]), float(number["centre"][1]))
        plain["number"] = Quantity(**{**number, "centre": centre, "step": Decimal(str(number["step"]))})
    entities = entry["entities"]
    return QuestionFamily(**plain), pools[entities] if isinstance(entities, str) else entities


def _series(family: QuestionFamily, entity: str) -> QuestionSeries:
    parts = entity.split("|")
    name = parts[1] if len(parts) > 1 else parts[0]
    code = parts[0] if len(parts) > 1 else build_code(name, 6)
    return QuestionSeries(f"KX{family.prefix}{code}", family, name, Decimal(parts[2]) if len(parts) > 2 else Decimal(1))


@lru_cache(maxsize=1)
def load_catalogue() -> Mapping[str, QuestionSeries]:
    """Load the built-in catalogue: all series by ticker."""
    content = tomllib.loads(files("bellwether.sandbox.world").joinpath("catalogue.toml").read_text("utf-8"))
    families = [_family(entry, content["pools"]) for entry in content["family"]]
    series = [_series(family, entity) for family, entities in families for entity in entities]
    return {one.ticker: one for one in series}
