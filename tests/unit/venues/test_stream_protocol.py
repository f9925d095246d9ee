"""Envelopes, polling and signatures of the stream."""

from __future__ import annotations

import json
from base64 import b64decode
from functools import lru_cache
from pathlib import Path

import httpx
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import strategies as st

from bellwether.errors import ConfigError
from bellwether.venues.kalshi.stream.frame import Envelope, parse_message, read_envelope
from bellwether.venues.kalshi.stream.polling import KalshiPolling
from bellwether.venues.kalshi.stream.signing import Credentials, build_headers
from tests.unit.venues.venue import answer, client

VALUES = st.one_of(st.none(), st.integers(-3, 2**40), st.text(max_size=5), st.lists(st.integers(), max_size=2))
KINDS = st.sampled_from(["orderbook_delta", "trade", "ok", "Novel Kind", ""])


TICKER = "KXA-26MAR20-B1"
LAST_TRADE = {"trade_id": "last", "ticker": TICKER, "created_time": "2026-03-20T08:30:01Z"}


class Closing:
    """A market that trades once more after a request of its trades, and is closed at the next look-up."""

    def __init__(self) -> None:
        self._is_over = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/markets/orderbooks"):
            return answer({"orderbooks": [{"ticker": TICKER, "orderbook_fp": {}}]})
        if path.endswith("/markets/trades"):
            return answer({"trades": [LAST_TRADE] if self._is_over else [], "cursor": ""})
        self._is_over = True
        return answer({"markets": [{"ticker": TICKER, "status": "closed"}], "cursor": ""})


async def test_what_is_traded_just_before_the_close_is_recorded() -> None:
    async with client(Closing()) as venue:
        frames = [json.loads(frame.data) async for frame in KalshiPolling(venue, (TICKER,), interval=0.001).frames()]
    assert [frame["type"] for frame in frames] == ["orderbook_rest", "trade_rest"]
    assert frames[-1]["msg"]["trades"] == [LAST_TRADE]


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


def test_the_key_comes_from_a_file_or_from_the_variable_itself(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(pem(key()))
    text = pem(key()).decode()
    for values in ({"KALSHI_PRIVATE_KEY_PATH": str(path)}, {"KALSHI_PRIVATE_KEY": text}, {"KALSHI_PRIVATE_KEY": text.replace("\n", "\\n")}):
        found = Credentials.from_environment({"KALSHI_API_KEY_ID": "a-key", **values})
        assert found.private_key.private_numbers() == key().private_numbers()


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


def test_the_envelope_of_a_message() -> None:
    for text, found in {
        '{"type":"trade","sid":2,"seq":7,"msg":{}}': Envelope("trade", 2, 7),
        '{"type":"trade","sending_ts_ms":5,"sid":2,"seq":7,"msg":{}}': Envelope("trade", 2, 7),
        '{"type":"ticker","sid":2,"msg":{"seq":9}}': Envelope("ticker", 2, None),
        '{"id":1,"type":"ok","sid":2,"seq":3,"msg":{}}': Envelope("ok", 2, 3),
        '{"type":"subscribed","msg":{"sid":2}}': Envelope("subscribed", None, None),
        '{"type":"trade","sid":"2","seq":true}': Envelope("trade", None, None),
        "[1,2]": Envelope(None, None, None),
        "not json": Envelope(None, None, None),
        "": Envelope(None, None, None),
    }.items():
        assert read_envelope(parse_message(text.encode())) == found


def test_the_signature_covers_time_method_and_path_and_shows_no_key() -> None:
    credentials = Credentials("a-key", key())
    signed = build_headers(credentials, "GET", PATH, AT)
    assert (signed["KALSHI-ACCESS-KEY"], signed["KALSHI-ACCESS-TIMESTAMP"]) == ("a-key", str(AT))
    check(signed, f"{AT}GET{PATH}")
    for text in (f"{AT + 1}GET{PATH}", f"{AT}POST{PATH}", f"{AT}GET/trade-api/v2"):
        with pytest.raises(InvalidSignature):
            check(signed, text)
    assert repr(credentials) == str(credentials) == "Credentials(key_id='a-key')"
