"""API keys of the sandbox's exchange, which verify signed requests."""

from __future__ import annotations

import binascii
import threading
import uuid
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.hashes import SHA256

from bellwether.sandbox.params import VenueRefusal
from bellwether.venues.kalshi.stream.signing import KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, Credentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

#: Maximum difference between the time of a signature and the clock (milliseconds).
TOLERANCE_MS = 10_000

_KEY_BITS = 2048


def unauthorized(details: str) -> VenueRefusal:
    """Build Kalshi's HTTP 401."""
    return VenueRefusal(401, {"error": {"code": "authentication_error", "message": "authentication_error", "details": details}})


class KeyRing:
    """API keys that the exchange accepts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, RSAPublicKey] = {}

    def issue(self) -> Credentials:
        """Issue an API key with a new RSA pair."""
        credentials = Credentials(str(uuid.uuid4()), rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS))
        self.admit(credentials)
        return credentials

    def admit(self, credentials: Credentials) -> None:
        """Accept an existing key; only the public key is stored."""
        public = credentials.private_key.public_key()
        with self._lock:
            self._keys[credentials.key_id] = public

    def expire(self, key_id: str) -> None:
        """Remove a key, so that its requests are refused from now on."""
        with self._lock:
            self._keys.pop(key_id, None)

    def verify(self, headers: Mapping[str, str], method: str, path: str, *now_ms: int) -> None:
        """Verify the signature of a request. now_ms: clocks in milliseconds since 1970, UTC; the time of the signature must be near one of
        them. Raises `VenueRefusal` (401) for a missing or invalid signature.
        """
        values = {name.lower(): value for name, value in headers.items()}
        key_id, signature, timestamp = (values.get(name.lower()) for name in (KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER))
        if key_id is None or signature is None or timestamp is None:
            missing = next(name for name in (KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER) if name.lower() not in values)
            raise unauthorized(f"{missing} header not found")
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 18):
            raise unauthorized("INVALID_TIMESTAMP")
        if all(abs(int(timestamp) - now) > TOLERANCE_MS for now in now_ms):
            raise unauthorized("TIMESTAMP_EXPIRED")
        with self._lock:
            key = self._keys.get(key_id)
        if key is None:
            raise unauthorized("NOT_FOUND")
        if not _is_valid(key, signature, f"{timestamp}{method}{path}".encode()):
            raise unauthorized("INCORRECT_API_KEY_SIGNATURE")


def _is_valid(key: RSAPublicKey, signature: str, message: bytes) -> bool:
    try:
        key.verify(b64decode(signature, validate=True), message, PSS(mgf=MGF1(SHA256()), salt_length=PSS.DIGEST_LENGTH), SHA256())
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
