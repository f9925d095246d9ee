"""Signed requests pass a second implementation's verifier, and no text shows the key."""

from __future__ import annotations

from base64 import b64decode
from functools import lru_cache
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from bellwether.errors import ConfigError
from bellwether.venues.kalshi.stream.signing import Credentials, build_headers

PATH = "/trade-api/ws/v2"
AT = 1_790_000_000_123


@lru_cache(maxsize=1)
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(secret: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    locked = BestAvailableEncryption(password) if password else NoEncryption()
    return secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)


def check(signed: dict[str, str], text: str) -> None:
    scheme = padding.PSS(mgf=padding.MGF1(SHA256()), salt_length=32)
    key().public_key().verify(b64decode(signed["KALSHI-ACCESS-SIGNATURE"]), text.encode(), scheme, SHA256())


def test_the_signature_covers_time_method_and_path() -> None:
    signed = build_headers(Credentials("a-key", key()), "GET", PATH, AT)
    assert signed["KALSHI-ACCESS-KEY"] == "a-key"
    assert signed["KALSHI-ACCESS-TIMESTAMP"] == str(AT)
    check(signed, f"{AT}GET{PATH}")


@pytest.mark.parametrize("text", [f"{AT + 1}GET{PATH}", f"{AT}POST{PATH}", f"{AT}GET/trade-api/v2"])
def test_the_signature_covers_nothing_else(text: str) -> None:
    signed = build_headers(Credentials("a-key", key()), "GET", PATH, AT)
    with pytest.raises(InvalidSignature):
        check(signed, text)


def test_no_text_shows_the_private_key() -> None:
    credentials = Credentials("a-key", key())
    assert repr(credentials) == str(credentials) == "Credentials(key_id='a-key')"


def test_the_key_comes_from_a_file_or_from_the_variable_itself(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(pem(key()))
    text = pem(key()).decode()
    for given in ({"KALSHI_PRIVATE_KEY_PATH": str(path)}, {"KALSHI_PRIVATE_KEY": text}, {"KALSHI_PRIVATE_KEY": text.replace("\n", "\\n")}):
        found = Credentials.from_environment({"KALSHI_API_KEY_ID": "a-key", **given})
        assert found.private_key.private_numbers() == key().private_numbers()


def test_the_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KALSHI_API_KEY_ID", "of-the-environment")
    monkeypatch.setenv("KALSHI_PRIVATE_KEY", pem(key()).decode())
    monkeypatch.delenv("KALSHI_PRIVATE_KEY_PATH", raising=False)
    assert Credentials.from_environment().key_id == "of-the-environment"


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "KALSHI_API_KEY_ID is not set"),
        ({"KALSHI_API_KEY_ID": "k"}, "neither is set"),
        ({"KALSHI_API_KEY_ID": "k", "KALSHI_PRIVATE_KEY": SECRET, "KALSHI_PRIVATE_KEY_PATH": "x"}, "both are set"),
        ({"KALSHI_API_KEY_ID": "k", "KALSHI_PRIVATE_KEY_PATH": "/no/such/file"}, "No such file"),
        ({"KALSHI_API_KEY_ID": "k", "KALSHI_PRIVATE_KEY": SECRET}, "no private key in PEM form"),
    ],
)
def test_what_is_wrong_is_named_by_its_variable_and_not_by_its_value(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Credentials.from_environment(given)
    assert SECRET not in str(caught.value)


def test_a_key_of_another_kind_or_behind_a_passphrase_is_refused() -> None:
    with pytest.raises(ConfigError, match="Kalshi's keys are RSA"):
        Credentials.from_pem("k", pem(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(ConfigError, match="it is encrypted"):
        Credentials.from_pem("k", pem(key(), b"secret"))
