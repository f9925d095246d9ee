"""Sanitization of untrusted text: removed credentials, single lines, visible control characters."""

from __future__ import annotations

import re
import unicodedata

#: Pattern of credentials, valid in Python and in Polars.
CREDENTIAL = (
    r"(?i)\b(?:bearer\s+[^\s\"']+|(?:sk|pk|rk)-[\w-]{8,}|gsk_\w{8,}|fw_\w{8,}|hf_\w{8,}|tgp_v1_[\w-]{8,}|xai-[\w-]{8,}|AIza[\w-]{8,})"
)
_CREDENTIAL = re.compile(CREDENTIAL)

#: Names that carry credentials and determine nothing; compared in lower case with underscores.
CREDENTIAL_NAMES = frozenset(
    {"api_key", "apikey", "x_api_key", "authorization", "proxy_authorization", "access_token", "bearer_token", "client_secret", "password"}
    | {"headers", "extra_headers", "default_headers"}
)


def redact(text: str) -> str:
    """Replace possible credentials in `text` by asterisks."""
    return _CREDENTIAL.sub("***", text)


def redact_name(text: str) -> str:
    """Replace possible credentials in a market's name. Text in capitals only, such as a ticker, is kept."""
    return _CREDENTIAL.sub(lambda match: match[0] if match[0].isupper() else "***", text)


def is_credential_name(name: str) -> bool:
    """Return True if a field of this name may contain a credential."""
    return name.lower().replace("-", "_") in CREDENTIAL_NAMES


def one_line(text: str, most: int | None = None) -> str:
    """Convert text to one line of at most `most` characters. Unprintable characters become spaces."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def visible(text: str, allowed: str = "") -> str:
    """Replace control characters, except those in `allowed`, by symbols: an escape becomes `␛`."""
    return text if text.isprintable() else "".join(letter if letter in allowed else _sign(letter) for letter in text)


def _sign(letter: str) -> str:
    if letter < " ":
        return chr(ord("\N{SYMBOL FOR NULL}") + ord(letter))
    # Controls, marks that turn the direction of writing, separators of lines, and what no terminal can show.
    return letter if unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else "\N{REPLACEMENT CHARACTER}"
