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

from bellwether.errors import ConfigError

Kind = Literal["single", "ladder", "brackets", "contest", "members"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Quantity about which the markets of a ladder or of brackets ask, in the unit of the question.

    half: integer outcomes with strikes between them. whole: integer outcomes with ranges that include both ends.
    """

    centre: tuple[float, float]
    spread: float
    step: Decimal
    prefix: str = ""
    suffix: str = ""
    decimals: int = 0
    thousands: bool = False
    half: bool = False
    whole: bool = False

    def text(self, value: Decimal) -> str:
        """Format a value as in the question, with prefix, suffix and decimals."""
        digits = 1 if self.half else self.decimals
        return f"{self.prefix}{value:{',' if self.thousands else ''}.{digits}f}{self.suffix}"


@dataclass(frozen=True, slots=True)
class QuestionFamily:
    """Template of questions; `catalogue.toml` documents each field."""

    prefix: str
    category: str
    kind: Kind
    series: str
    event: str
    question: tuple[str, ...]
    claim: str
    source: tuple[str, str]
    life: tuple[int, int]
    hours: tuple[int, int]
    share: float
    frequency: str
    tags: tuple[str, ...]
    options: tuple[str, ...] = ()
    number: Quantity | None = None
    early: Literal["", "result", "deadline"] = ""
    pace: int = 1
    pair: bool = False
    tie: bool = False

    @property
    def late(self) -> bool:
        """True if markets close between midnight and 6:00 UTC, so that tickers and texts name the previous, American day."""
        return self.hours[0] < 6


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


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All series. shares: by series, the fraction of all events that belong to it."""

    series: tuple[QuestionSeries, ...]
    shares: tuple[float, ...]
    by_ticker: Mapping[str, QuestionSeries]


def _code(name: str) -> str:
    """Return the first six letters and digits of a name, in upper case and without accents."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return "".join(letter for letter in plain.upper() if letter.isalnum())[:6]


def build_option_code(name: str) -> str:
    """Build the ticker suffix of a named option, such as a team, from its letters, or from its code points if it has no Latin letters."""
    return _code(name)[:4] or "".join(f"{ord(letter):X}" for letter in name if letter.isalnum())[:8]


def _number(entry: dict[str, Any]) -> Quantity:
    low, high = entry.pop("centre")
    return Quantity(centre=(float(low), float(high)), step=Decimal(str(entry.pop("step"))), **entry)


def _family(entry: dict[str, Any], pools: dict[str, list[str]]) -> tuple[QuestionFamily, list[str]]:
    entry = dict(entry)
    entities, options = entry.pop("entities"), entry.pop("options", [])
    source, address = entry.pop("source").split("|")
    number = entry.pop("number", None)
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    family = QuestionFamily(
        **plain,
        source=(source, address),
        options=tuple(pools[options] if isinstance(options, str) else options),
        number=_number(number) if number else None,
    )
    return family, pools[entities] if isinstance(entities, str) else entities


def _series(family: QuestionFamily, entity: str) -> QuestionSeries:
    parts = entity.split("|")
    name = parts[1] if len(parts) > 1 else parts[0]
    code = parts[0] if len(parts) > 1 else _code(name)
    return QuestionSeries(f"KX{family.prefix}{code}", family, name, Decimal(parts[2]) if len(parts) > 2 else Decimal(1))


@lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """Load the built-in catalogue."""
    content = tomllib.loads(files("bellwether.sandbox.world").joinpath("catalogue.toml").read_text("utf-8"))
    series: list[QuestionSeries] = []
    shares: list[float] = []
    for entry in content["family"]:
        family, entities = _family(entry, content["pools"])
        series += [_series(family, entity) for entity in entities]
        shares += [family.share / len(entities)] * len(entities)
    by_ticker = {item.ticker: item for item in series}
    if len(by_ticker) != len(series):
        twice = next(item.ticker for item in series if by_ticker[item.ticker] is not item)
        raise ConfigError(f"read the sandbox's catalogue.toml: two series have the ticker {twice}; give one of the entities its own code")
    total = sum(shares)
    return Catalogue(tuple(series), tuple(share / total for share in shares), by_ticker)
