"""What looks like a credential: in the words of an error, and among the fields of a registry or a request."""

from __future__ import annotations

import re

#: As Polars reads it, too.
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
    """`text` without what looks like a credential."""
    return _CREDENTIAL.sub("***", text)


def redact_name(text: str) -> str:
    """`redact` for names of markets: what is all capitals, as tickers are and keys are not, stays."""
    return _CREDENTIAL.sub(lambda found: found[0] if found[0].isupper() else "***", text)


def is_credential_name(name: str) -> bool:
    """Whether what is called so may carry a credential."""
    return name.lower().replace("-", "_") in CREDENTIAL_NAMES
