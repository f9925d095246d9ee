"""API keys: valid signatures pass, and everything else gets HTTP 401."""

from __future__ import annotations

import pytest

from bellwether.sandbox.exchange.keys import TOLERANCE_MS, KeyRing
from bellwether.sandbox.params import VenueRefusal
from bellwether.venues.kalshi.stream.signing import SIGNATURE_HEADER, TIMESTAMP_HEADER, Credentials, build_headers

PATH = "/trade-api/ws/v2"
NOW = 1_750_000_000_000


@pytest.fixture(scope="module")
def keys() -> KeyRing:
    return KeyRing()


@pytest.fixture(scope="module")
def credentials(keys: KeyRing) -> Credentials:
    return keys.issue()


def refusal(keys: KeyRing, signed: dict[str, str], *clocks: int, path: str = PATH) -> str:
    with pytest.raises(VenueRefusal) as caught:
        keys.verify(signed, "GET", path, *(clocks or (NOW,)))
    assert caught.value.status == 401
    return caught.value.body["error"]["details"]


def test_a_signed_request_passes(keys: KeyRing, credentials: Credentials) -> None:
    keys.verify(build_headers(credentials, "GET", PATH, NOW), "GET", PATH, NOW)
    lower = {name.lower(): value for name, value in build_headers(credentials, "GET", PATH, NOW).items()}
    keys.verify(lower, "GET", PATH, NOW)


def test_the_time_must_be_near_one_of_the_clocks(keys: KeyRing, credentials: Credentials) -> None:
    signed = build_headers(credentials, "GET", PATH, NOW)
    for clocks in ((NOW + TOLERANCE_MS,), (NOW - TOLERANCE_MS,), (0, NOW), (NOW, 1 << 60)):
        keys.verify(signed, "GET", PATH, *clocks)
    assert refusal(keys, signed, NOW + TOLERANCE_MS + 1) == "TIMESTAMP_EXPIRED"
    assert refusal(keys, signed, 0, NOW - TOLERANCE_MS - 1) == "TIMESTAMP_EXPIRED"


def test_a_signature_holds_for_its_method_path_and_time_only(keys: KeyRing, credentials: Credentials) -> None:
    signed = build_headers(credentials, "GET", PATH, NOW)
    assert refusal(keys, signed, path="/trade-api/ws/v1") == "INCORRECT_API_KEY_SIGNATURE"
    assert refusal(keys, {**signed, TIMESTAMP_HEADER: str(NOW + 1)}) == "INCORRECT_API_KEY_SIGNATURE"
    assert refusal(keys, build_headers(credentials, "POST", PATH, NOW)) == "INCORRECT_API_KEY_SIGNATURE"
    assert refusal(keys, {**signed, SIGNATURE_HEADER: "not base64!"}) == "INCORRECT_API_KEY_SIGNATURE"
    assert refusal(keys, {**signed, SIGNATURE_HEADER: "AAAA"}) == "INCORRECT_API_KEY_SIGNATURE"


def test_keys_of_others_and_expired_ones_are_refused(credentials: Credentials) -> None:
    ring = KeyRing()
    assert refusal(ring, build_headers(credentials, "GET", PATH, NOW)) == "NOT_FOUND"
    ring.admit(credentials)
    ring.verify(build_headers(credentials, "GET", PATH, NOW), "GET", PATH, NOW)
    ring.expire(credentials.key_id)
    ring.expire("nobody's")
    assert refusal(ring, build_headers(credentials, "GET", PATH, NOW)) == "NOT_FOUND"
