"""Ids in Polymarket's formats, which the sandbox can decode, but its clients cannot."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

from bellwether.sandbox.world.random_draws import NumberCode

#: What an id of 32 bytes identifies; "position" are conditions and outcomes of Protocol V2.
Kind = Literal["condition", "question", "token", "position"]

_EVENT_BITS, _MARKET_BITS = 20, 24
_FIRST_EVENT, _FIRST_MARKET = 20_000, 500_000
_NUMBER = re.compile(r"[0-9]{1,9}")
_TOKEN = re.compile(r"[0-9]{60,78}")
_HASH = re.compile(r"0x[0-9a-f]{62}(?:[0-9a-f]{2})?")


class Ids:
    """Codec between ids and the numbers of a world's events (20 bits) and markets (24 bits)."""

    def __init__(self, seed: int, code: NumberCode) -> None:
        self._seed = seed
        self._code = code

    def event(self, number: int) -> str:
        """Return the numeric id of an event."""
        return str(_FIRST_EVENT + self._code.hide(number, _EVENT_BITS))

    def market(self, number: int) -> str:
        """Return the numeric id of a market."""
        return str(_FIRST_MARKET + self._code.hide(number, _MARKET_BITS))

    def event_number(self, text: str) -> int | None:
        """Decode the number of an event from its id; None for an invalid id."""
        return self._number(text, _FIRST_EVENT, _EVENT_BITS)

    def _number(self, text: str, first: int, bits: int) -> int | None:
        """Decode a numeric id of `bits` bits, counted from `first`; None for an invalid id."""
        hidden = int(text) - first if _NUMBER.fullmatch(text) else -1
        return self._code.show(hidden, bits) if 0 <= hidden < 1 << bits else None

    def _digest(self, kind: Kind, number: int, last: int = 0) -> bytes:
        """Return the 32 bytes of an id: a hash, the masked number of the market, and the byte `last`, which is the outcome."""
        plain = hashlib.sha256(f"{self._seed}|{kind}|{number}".encode()).digest()[:27]
        return plain + (self._mask(plain) ^ number).to_bytes(4) + bytes([last])

    def _mask(self, plain: bytes) -> int:
        """Return the mask that hides a number, derived from the bytes before it in the id."""
        return int.from_bytes(hashlib.sha256(f"{self._seed}|mask|".encode() + plain).digest()[:4])

    def condition(self, number: int, is_v2: bool) -> str:
        """Return the condition id of a market: 64 hexadecimal digits, or 62 on Protocol V2."""
        return f"0x{self._digest('position', number)[:31].hex()}" if is_v2 else f"0x{self._digest('condition', number).hex()}"

    def question(self, number: int) -> str:
        """Return the question id of a market."""
        return f"0x{self._digest('question', number).hex()}"

    def tokens(self, number: int, is_v2: bool) -> tuple[str, str]:
        """Return the decimal ids of a market's outcomes: of its tokens, or of its positions on Protocol V2."""
        kind: Kind = "position" if is_v2 else "token"
        return str(int.from_bytes(self._digest(kind, number, 0))), str(int.from_bytes(self._digest(kind, number, 1)))

    def market_number(self, text: str) -> int | None:
        """Decode the number of a market from its id, a condition id or a token id; None for an invalid id."""
        if _HASH.fullmatch(text):
            content = bytes.fromhex(text[2:].ljust(64, "0"))
        elif _TOKEN.fullmatch(text) and int(text) < 1 << 256:
            content = int(text).to_bytes(32)
        else:
            return self._number(text, _FIRST_MARKET, _MARKET_BITS)
        number = self._mask(content[:27]) ^ int.from_bytes(content[27:31])
        kinds: tuple[Kind, ...] = ("condition", "token", "position")
        return number if number < 1 << _MARKET_BITS and content in {self._digest(kind, number, content[31]) for kind in kinds} else None
