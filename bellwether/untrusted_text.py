"""Making text from outside safe to show: without credentials, on one line, with visible control characters."""

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
    """Replace parts of `text` that look like credentials by asterisks."""
    return _CREDENTIAL.sub("***", text)


def redact_name(text: str) -> str:
    """Replace parts of a market's name that look like credentials. Parts in capitals are kept, because they may be tickers."""
    return _CREDENTIAL.sub(lambda match: match[0] if match[0].isupper() else "***", text)


def is_credential_name(name: str) -> bool:
    """Return True if a field of this name usually contains a credential."""
    return name.lower().replace("-", "_") in CREDENTIAL_NAMES


def one_line(text: str, most: int | None = None) -> str:
    """Convert text to one line, shortened to `most` characters. Unprintable characters become spaces."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def visible(text: str, allowed: str = "") -> str:
    """Replace control characters, except those in `allowed`, by symbols such as `␛` for an escape."""
    return text if text.isprintable() else "".join(letter if letter in allowed else _sign(letter) for letter in text)


def _sign(letter: str) -> str:
    if letter < " ":
        return chr(ord("\N{SYMBOL FOR NULL}") + ord(letter))
    # Controls, marks that turn the direction of writing, separators of lines, and what no terminal can show.
    return letter if unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else "\N{REPLACEMENT CHARACTER}"
