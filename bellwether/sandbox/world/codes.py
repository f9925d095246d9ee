"""Ticker codes that hide the day of an event: the number of the day, scrambled by a key.

Days are numbered from 2025-01-01, which is 0. The day of an event (`home`) is the one on which its last market closes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from bellwether.sandbox.world.catalogue import load_catalogue
from bellwether.sandbox.world.model import FIRST_DAY
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DATED = re.compile(r"(\d\d)([A-Z]{3})(\d\d)")
_CODED = re.compile(rf"\d\d([{_ALPHABET}]{{4}})")
_COMBO = re.compile(r"S\d{4}([0-9A-F]{10})")
_EVENT_BITS, _COMBO_BITS, _COMBOS_PER_DAY = 20, 40, 64
_PLACE_BITS, _EVENTS_PER_DAY = 32, 64


def format_date_code(day: date) -> str:
    """Format the date part of a ticker, such as 25OCT14."""
    return f"{day.year % 100:02d}{_MONTHS[day.month - 1]}{day.day:02d}"


@dataclass(frozen=True, slots=True)
class TickerCodes:
    """Key for scrambling numbers: multiplication by an odd factor plus an offset, modulo a power of two."""

    factor: int
    offset: int

    @classmethod
    def of(cls, seed: int) -> TickerCodes:
        """Draw the key for the world with this seed."""
        draw = RandomDraws(seed, Purpose.CODE)
        return cls(2 * draw.integer(1 << 34, (1 << 38) - 1) + 1, draw.integer(0, (1 << 40) - 1))

    def hide(self, number: int, bits: int) -> int:
        """Scramble a number of `bits` bits; `show` reverses this."""
        return (number * self.factor + self.offset) % (1 << bits)

    def show(self, hidden: int, bits: int) -> int:
        """Return the number from which `hide` made `hidden`."""
        return (hidden - self.offset) * pow(self.factor, -1, 1 << bits) % (1 << bits)

    def place(self, home: int, index: int) -> int:
        """Return a number that identifies event `index` of day number `home`, but does not reveal the day."""
        return self.hide(home * _EVENTS_PER_DAY + index, _PLACE_BITS)

    def event(self, home: int, year: int) -> str:
        """Return the code in an event's ticker: the announced `year`, and the number of the event's day (`home`), scrambled."""
        hidden = self.hide(home, _EVENT_BITS)
        return f"{year % 100:02d}" + "".join(_ALPHABET[hidden >> shift & 31] for shift in (15, 10, 5, 0))

    def combo(self, home: int, index: int, year: int) -> str:
        """Return the code in a combo's ticker: the `year`, and the number of its day and its `index` in the day, scrambled."""
        return f"S{year}{self.hide(home * _COMBOS_PER_DAY + index, _COMBO_BITS):010X}"

    def home(self, event_ticker: str) -> int | None:
        """Decode the number of the day from an event's ticker; None for an invalid ticker."""
        series_ticker, _, rest = event_ticker.partition("-")
        if combo := _COMBO.fullmatch(rest):
            return self.show(int(combo[1], 16), _COMBO_BITS) // _COMBOS_PER_DAY
        if coded := _CODED.fullmatch(rest):
            hidden = 0
            for letter in coded[1]:
                hidden = hidden << 5 | _ALPHABET.index(letter)
            return self.show(hidden, _EVENT_BITS)
        series = load_catalogue().by_ticker.get(series_ticker)
        if series is None or not (match := _DATED.fullmatch(rest)) or match[2] not in _MONTHS:
            return None
        try:
            named = date(2000 + int(match[1]), _MONTHS.index(match[2]) + 1, int(match[3]))
        except ValueError:
            return None
        return (named + timedelta(days=series.family.late) - FIRST_DAY).days
