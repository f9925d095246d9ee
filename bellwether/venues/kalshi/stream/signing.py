"""Kalshi's request signatures: RSA-PSS over time, method and path. The private key is never displayed."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from bellwether.errors import ConfigError

KEY_ID, KEY_PATH, KEY_TEXT = "KALSHI_API_KEY_ID", "KALSHI_PRIVATE_KEY_PATH", "KALSHI_PRIVATE_KEY"
KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER = "KALSHI-ACCESS-KEY", "KALSHI-ACCESS-SIGNATURE", "KALSHI-ACCESS-TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Credentials:
    """API key of Kalshi: its id and its private RSA key, which `repr` does not show."""

    key_id: str
    private_key: RSAPrivateKey = field(repr=False)

    @classmethod
    def from_pem(cls, key_id: str, pem: bytes, *, source: str = "the private key") -> Credentials:
        """Load an unencrypted RSA key in PEM form. Raises `ConfigError`, which names `source`, for any other text."""
        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError:
            raise _unusable(source, "it is encrypted", "store it without a passphrase") from None
        except (ValueError, UnsupportedAlgorithm):
            raise _unusable(source, "it is no private key in PEM form", "give the file as Kalshi issued it") from None
        if not isinstance(key, RSAPrivateKey):
            raise _unusable(source, f"it is a {type(key).__name__}", "Kalshi's keys are RSA; give the file as Kalshi issued it")
        return cls(key_id, key)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Credentials:
        """Load the key from environment variables: KALSHI_API_KEY_ID, and KALSHI_PRIVATE_KEY_PATH or KALSHI_PRIVATE_KEY.

        The path is that of a PEM file; the other variable contains the PEM text. environment: default: that of the process. Raises `ConfigError` that names the variable, never its value, if one is missing or invalid.
        """
        variables = os.environ if environment is None else environment
        key_id, path, text = (variables.get(name, "").strip() for name in (KEY_ID, KEY_PATH, KEY_TEXT))
        if not key_id:
            raise ConfigError(f"signing calls to Kalshi: {KEY_ID} is not set; set it to the id of your API key, or do without one (--rest)")
        if bool(path) == bool(text):
            state = "both are set" if path else "neither is set"
            raise ConfigError(f"signing calls to Kalshi: of {KEY_PATH} and {KEY_TEXT} {state}; set one")
        if text:
            return cls.from_pem(key_id, text.replace("\\n", "\n").encode(), source=KEY_TEXT)
        try:
            pem = Path(path).expanduser().read_bytes()
        except OSError as error:
            raise _unusable(f"the file that {KEY_PATH} names", error.strerror or "it cannot be read", "mend the path") from None
        return cls.from_pem(key_id, pem, source=f"the file that {KEY_PATH} names")


def _unusable(source: str, problem: str, advice: str) -> ConfigError:
    return ConfigError(f"signing calls to Kalshi: {source} cannot be used: {problem}; {advice}")


def build_headers(credentials: Credentials, method: str, path: str, at_ms: int) -> dict[str, str]:
    """Build the headers that authenticate a request by a signature over time, method and path.

    The signature is RSA-PSS with SHA-256, MGF1 with SHA-256 and a salt of 32 bytes. path: without host and query. at_ms: milliseconds since 1970, UTC; the venue refuses a time that is off by more than a few seconds.
    """
    padding = PSS(mgf=MGF1(SHA256()), salt_length=PSS.DIGEST_LENGTH)
    signature = credentials.private_key.sign(f"{at_ms}{method}{path}".encode(), padding, SHA256())
    return {KEY_HEADER: credentials.key_id, SIGNATURE_HEADER: b64encode(signature).decode(), TIMESTAMP_HEADER: str(at_ms)}
