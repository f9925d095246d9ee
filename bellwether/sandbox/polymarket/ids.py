"""Ids in Polymarket's formats, which the sandbox can decode, but its clients cannot."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Literal

from bellwether.sandbox.world.codes import TickerCodes

Kind = Literal["condition", "question", "token 0", "token 1", "group", "request", "address"]

_EVENT_BITS, _MARKET_BITS = 20, 24
_FIRST_EVENT, _FIRST_MARKET = 20_000, 500_000
_DIGITS = re.compile(r"[0-9]{1,9}")
_TOKEN = re.compile(r"[0-9]{60,78}")
_HASH = re.compile(r"0x[0-9a-f]{62}(?:[0-9a-f]{2})?")
#: First byte of the ids of Protocol V2: a market of two outcomes.
_BINARY = b"\x01"


def build_slug(text: str, number: str) -> str:
    """Build a slug from a text, with a number that makes it unique."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower().replace("'", "")
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:70].strip("-")
    return f"{slug}-{number}" if slug else number


class Ids:
    """Codec between ids and the numbers of a world's events (20 bits) and markets (24 bits)."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._codes = TickerCodes.of(seed)

    def event(self, number: int) -> str:
        """Return the numeric id of an event."""
        return str(_FIRST_EVENT + self._codes.hide(number, _EVENT_BITS))

    def market(self, number: int) -> str:
        """Return the numeric id of a market."""
        return str(_FIRST_MARKET + self._codes.hide(number, _MARKET_BITS))

    def event_number(self, text: str) -> int | None:
        """Decode the number of an event from its id; None for an invalid id."""
        return self._number(text, _FIRST_EVENT, _EVENT_BITS)

    def market_number(self, text: str) -> int | None:
        """Decode the number of a market from its id; None for an invalid id."""
        return self._number(text, _FIRST_MARKET, _MARKET_BITS)

    def _number(self, text: str, first: int, bits: int) -> int | None:
        """Decode a numeric id of `bits` bits, counted from `first`; None for an invalid id."""
        hidden = int(text) - first if _DIGITS.fullmatch(text) else -1
        return self._codes.show(hidden, bits) if 0 <= hidden < 1 << bits else None

    def _mask(self, plain: bytes) -> bytes:
        """Return the four bytes that hide a number, derived from the bytes before it in the id."""
        return hashlib.sha256(f"{self._seed}|mask|".encode() + plain).digest()[:4]

    def digest(self, kind: Kind, number: int) -> bytes:
        """Return the 32 bytes of an id: a hash, then the number of the event or market, masked. kind: what the id identifies."""
        plain = hashlib.sha256(f"{self._seed}|{kind}|{number}".encode()).digest()[:28]
        masked = int.from_bytes(self._mask(plain)) ^ number
        return plain + masked.to_bytes(4)

    def text(self, kind: Kind, number: int) -> str:
        """Return an id as 0x and 64 hexadecimal digits."""
        return "0x" + self.digest(kind, number).hex()

    def address(self, kind: Kind, number: int) -> str:
        """Return an account's address."""
        return "0x" + self.digest(kind, number)[:20].hex()

    def token(self, side: int, number: int) -> str:
        """Return the decimal id of a market's token number `side`, 0 or 1."""
        return str(int.from_bytes(self.digest("token 1" if side else "token 0", number)))

    def _structured(self, number: int) -> bytes:
        """Return the first 31 bytes of all ids of a Protocol V2 market; the last byte is the outcome."""
        plain = _BINARY + hashlib.sha256(f"{self._seed}|condition v2|{number}".encode()).digest()[:26]
        masked = int.from_bytes(self._mask(plain)) ^ number
        return plain + masked.to_bytes(4)

    def structured_condition(self, number: int) -> str:
        """Return the condition id of a Protocol V2 market: 62 hexadecimal digits, or 64 with the outcome byte, which is zero."""
        return "0x" + self._structured(number).hex() + "00" * (number % 2)

    def position(self, side: int, number: int) -> str:
        """Return the decimal id of outcome number `side` of a Protocol V2 market."""
        return str(int.from_bytes(self._structured(number) + bytes([side])))

    def _read_structured(self, content: bytes) -> int | None:
        number = int.from_bytes(self._mask(content[:27])) ^ int.from_bytes(content[27:31])
        return number if number < 1 << _MARKET_BITS and self._structured(number) == content[:31] else None

    def _read(self, content: bytes, kind: Kind) -> int | None:
        number = int.from_bytes(self._mask(content[:28])) ^ int.from_bytes(content[28:])
        return number if number < 1 << _MARKET_BITS and self.digest(kind, number) == content else None

    def condition_number(self, text: str) -> int | None:
        """Decode the number of a market from its condition id; None for an invalid id."""
        if not _HASH.fullmatch(text):
            return None
        content = bytes.fromhex(text[2:].ljust(64, "0"))
        number = self._read(content, "condition")
        return self._read_structured(content) if number is None and not content[31] else number

    def token_number(self, text: str) -> tuple[int, int] | None:
        """Decode the number of the market and the side from a token id; None for an invalid id."""
        if not _TOKEN.fullmatch(text) or int(text) >= 1 << 256:
            return None
        content = int(text).to_bytes(32)
        sides = ((self._read(content, "token 0"), 0), (self._read(content, "token 1"), 1), (self._read_structured(content), content[31]))
        return next(((number, side) for number, side in sides if number is not None), None)
