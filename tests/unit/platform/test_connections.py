"""`bellwether doctor --live`: addresses and keys that work, fail or do not answer, without showing any key."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.hashes import SHA256
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bellwether import doctor
from bellwether.doctor import KALSHI_KEY_PATH, PROVIDERS, Connection, Provider, try_connections, try_kalshi_key, try_provider
from bellwether.sandbox import serve
from bellwether.sandbox.worlds import build_application
from bellwether.settings import Settings, World, settings
from cli.main import main
from tests.recordings.stream_faults import Faults
from tests.venues.stream.peer import CREDENTIALS

KEY = "sk-verysecret-0123456789abcdef"
DEAD = "http://127.0.0.1:9"
OPENAI = PROVIDERS[0]


class Fake:
    """Provider that accepts one key, records requests, and repeats a wrong key in its answer, as some providers do."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.seen: list[Request] = []

    async def answer(self, request: Request) -> Response:
        self.seen.append(request)
        if self.answers:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if any(value == KEY or f"Bearer {KEY}" == value for value in request.headers.values()):
            return JSONResponse({"data": [{"id": "model"}]})
        return JSONResponse({"error": f"Incorrect API key provided: {dict(request.headers)}"}, status_code=401)


Serving = Callable[[Fake], str]


class Host:
    """Server that is passed from one fake to the next."""

    def __init__(self) -> None:
        self.fake = Fake()

    async def answer(self, request: Request) -> Response:
        return await self.fake.answer(request)


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Host, str]]:
    host = Host()
    with serve(Starlette(routes=[Route("/{path:path}", host.answer)])) as served:
        yield host, served.root


@pytest.fixture
def serving(site: tuple[Host, str]) -> Serving:
    """Serve a fake and return its address."""

    def put(fake: Fake) -> str:
        site[0].fake = fake
        return site[1]

    return put


def tried(provider: Provider, **environment: str) -> Connection:
    return asyncio.run(try_provider(provider, environment))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS:
        for name in (*provider.variables, *provider.base_variables):
            monkeypatch.delenv(name, raising=False)
    for name in ("KALSHI_API_KEY_ID", "KALSHI_PRIVATE_KEY", "KALSHI_PRIVATE_KEY_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_the_key_of_each_provider_is_tried_with_one_call_and_stays_out_of_the_address(provider: Provider, serving: Serving):
    fake = Fake()
    address = serving(fake)
    found = tried(provider, **{provider.variables[0]: KEY, provider.base_variables[0]: f"{address}/base/"})
    assert (found.status, found.advice) == ("ok", "")
    assert found.milliseconds is not None
    assert [request.url.path for request in fake.seen] == [f"/base{provider.path}"]
    assert fake.seen[0].method == "GET"
    assert KEY not in str(fake.seen[0].url)
    assert fake.seen[0].headers[provider.header] == provider.scheme + KEY


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_a_wrong_key_is_refused_and_not_shown(provider: Provider, serving: Serving):
    wrong = "wrong-" + KEY[::-1]
    address = serving(Fake())
    found = tried(provider, **{provider.variables[0]: wrong, provider.base_variables[1]: address})
    assert found.status == "refused"
    assert "HTTP 401" in found.found
    assert provider.variables[0] in found.advice
    assert not parts_of(wrong) & parts_of(str(asdict(found)))


def parts_of(text: str) -> set[str]:
    """Return all substrings of six characters."""
    return {text[first : first + 6] for first in range(len(text) - 5)}


def test_a_key_that_is_not_set_is_no_error():
    for value in ({}, {"OPENAI_API_KEY": "  "}):
        found = tried(OPENAI, **value)
        assert (found.status, found.is_bad, found.milliseconds) == ("not set", False, None)


def test_the_second_name_of_a_key_serves_where_the_first_is_not_set(serving: Serving):
    google = next(provider for provider in PROVIDERS if provider.name == "Google")
    address = serving(Fake())
    assert tried(google, GOOGLE_API_KEY=KEY, GEMINI_API_BASE=address).status == "ok"


@pytest.mark.parametrize("key", ["sk-one two", "sk-line\nbreak", "sk-cyrillic-ключ"])
def test_a_key_that_no_header_can_carry_is_named_before_it_is_sent(key: str, serving: Serving):
    fake = Fake()
    address = serving(fake)
    found = tried(OPENAI, OPENAI_API_KEY=key, OPENAI_API_BASE=address)
    assert (found.status, fake.seen) == ("refused", [])
    assert not parts_of(key[3:]) & parts_of(str(asdict(found)))


PAGE = Response(b"<html>log in</html>", media_type="text/html")
GOOD = JSONResponse({"data": []})
ANSWERS: dict[str, tuple[tuple[Response, ...], str, int]] = {
    "400": ((Response(status_code=400),), "refused", 1),
    "402": ((Response(status_code=402),), "refused", 1),
    "403": ((Response(status_code=403),), "refused", 1),
    "429": ((Response(status_code=429),), "refused", 1),
    "302": ((Response(status_code=302, headers={"Location": "https://elsewhere.example/"}),), "unreachable", 1),
    "404": ((Response(status_code=404),), "unreachable", 1),
    "a web page": ((PAGE,), "unreachable", 1),
    "503 for ever": ((Response(status_code=503),), "unreachable", 2),
    "503 once": ((Response(status_code=503), GOOD), "ok", 2),
}


@pytest.mark.parametrize(("answers", "status", "calls"), ANSWERS.values(), ids=list(ANSWERS))
def test_an_answer_is_sorted_by_what_it_says_of_the_key(answers: tuple[Response, ...], status: str, calls: int, serving: Serving):
    fake = Fake(*answers)
    address = serving(fake)
    found = tried(OPENAI, OPENAI_API_KEY=KEY, OPENAI_API_BASE=address)
    assert (found.status, len(fake.seen)) == (status, calls)
    assert found.is_bad == (status != "ok")


@pytest.mark.parametrize("address", [DEAD, "localhost/v1", "http://[", "https://user:hidden@127.0.0.1:9/v1"])
def test_an_address_that_does_not_answer_is_unreachable(address: str):
    found = tried(OPENAI, OPENAI_API_KEY=KEY, OPENAI_API_BASE=address)
    assert found.status == "unreachable"
    assert "OPENAI_API_BASE" in found.advice
    assert "hidden" not in str(asdict(found))
    assert not parts_of(KEY) & parts_of(str(asdict(found)))


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch, serving: Serving):
    monkeypatch.setattr(doctor, "WHOLE_SECONDS", 0.3)

    async def dripping() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    class Drip(Fake):
        async def answer(self, request: Request) -> Response:
            return StreamingResponse(dripping())

    address = serving(Drip())
    found = tried(OPENAI, OPENAI_API_KEY=KEY, OPENAI_API_BASE=address)
    assert (found.status, found.found) == ("unreachable", "no answer within 0.3 seconds")


def test_a_key_of_kalshi_is_tried_with_a_signed_call():
    valid = {CREDENTIALS.key_id}

    async def limits(request: Request) -> Response:
        headers, scheme = request.headers, PSS(mgf=MGF1(SHA256()), salt_length=PSS.DIGEST_LENGTH)
        signed = f"{headers['KALSHI-ACCESS-TIMESTAMP']}{request.method}{request.url.path}".encode()
        signature = b64decode(headers["KALSHI-ACCESS-SIGNATURE"])
        CREDENTIALS.private_key.public_key().verify(signature, signed, scheme, SHA256())
        if headers["KALSHI-ACCESS-KEY"] not in valid:
            return JSONResponse({"error": {"code": "authentication_error"}}, status_code=401)
        return JSONResponse({"usage_tier": "basic"})

    with serve(Starlette(routes=[Route(f"/trade-api/v2{KALSHI_KEY_PATH}", limits)])) as site:
        assert asyncio.run(try_kalshi_key(site.kalshi, CREDENTIALS)).status == "ok"
        valid.clear()
        refused = asyncio.run(try_kalshi_key(site.kalshi + "/", CREDENTIALS))
    assert refused.status == "refused"
    assert CREDENTIALS.key_id not in str(asdict(refused))


def by_name(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["name"]: row["status"] for row in rows}


VENUES = {"Kalshi REST", "Polymarket Gamma", "Polymarket CLOB", "Kalshi WebSocket"}


def pem_of(credentials: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return credentials.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run `bellwether doctor --live` in a world, and return its exit code and output."""

    def run(*arguments: str, **environment: str) -> tuple[int, str]:
        for name, value in {"BELLWETHER_HOME": str(tmp_path), **environment}.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        result = CliRunner().invoke(main, ["doctor", "--live", *arguments])
        return result.exit_code, result.output

    yield run
    settings.cache_clear()


def test_in_the_sandbox_everything_answers(command: Any):
    code, output = command("--json", BELLWETHER_WORLD="sandbox")
    found = by_name(json.loads(output))
    assert code == 0
    assert {name for name, status in found.items() if status == "ok"} == VENUES | {"Models of this world"}
    assert {name for name, status in found.items() if status == "not set"} == {provider.name for provider in PROVIDERS}


def test_something_configured_that_fails_is_an_exit_code_and_an_advice(command: Any):
    code, output = command(BELLWETHER_WORLD="sandbox", OPENAI_API_KEY=KEY, OPENAI_API_BASE=DEAD)
    assert code == 1
    assert "unreachable" in output
    assert "OPENAI_API_BASE" in output
    assert not parts_of(KEY) & parts_of(output)


def test_a_live_world_is_tried_at_its_own_addresses_with_its_own_key(command: Any):
    app = Faults(build_application(Settings(world=World.SANDBOX, _env_file=None)))
    with serve(app) as site:
        live = {
            "BELLWETHER_WORLD": "live",
            "BELLWETHER_KALSHI_URL": site.kalshi,
            "BELLWETHER_KALSHI_STREAM_URL": site.kalshi_stream,
            "BELLWETHER_GAMMA_URL": site.gamma,
            "BELLWETHER_CLOB_URL": site.clob,
            "KALSHI_API_KEY_ID": CREDENTIALS.key_id,
            "KALSHI_PRIVATE_KEY": pem_of(CREDENTIALS),
        }
        _, output = command("--json", **live)
        assert {name for name, status in by_name(json.loads(output)).items() if status == "ok"} >= VENUES
        app.refuses = True
        code, output = command("--json", **live)
    assert code == 1
    assert by_name(json.loads(output))["Kalshi WebSocket"] == "refused"
    assert CREDENTIALS.key_id not in output


def nowhere() -> Settings:
    """Settings of a live world in which no address answers."""
    return Settings(world=World.LIVE, kalshi_url=DEAD, kalshi_stream_url="ws://127.0.0.1:9", gamma_url=DEAD, clob_url=DEAD, _env_file=None)


def test_without_a_network_everything_is_unreachable_and_nothing_else_is_wrong():
    found = {one.name: one.status for one in try_connections(nowhere())}
    assert {found[name] for name in ("Kalshi REST", "Polymarket Gamma", "Polymarket CLOB")} == {"unreachable"}
    assert found["Kalshi WebSocket"] == found["Kalshi key"] == "not set"


@pytest.mark.parametrize("pem", ["no key at all", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----"])
def test_a_private_key_that_cannot_be_read_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch, pem: str):
    monkeypatch.setenv("KALSHI_API_KEY_ID", "5f0c7d9e-id")
    monkeypatch.setenv("KALSHI_PRIVATE_KEY", pem)
    found = [one for one in try_connections(nowhere()) if one.name.startswith("Kalshi") and one.name != "Kalshi REST"]
    assert {one.status for one in found} == {"refused"}
    assert "KALSHI_PRIVATE_KEY" in found[0].found
    assert "c2VjcmV0" not in str(found) and "no key at all" not in str(found)
