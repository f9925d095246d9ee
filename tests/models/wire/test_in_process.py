"""The wire to an application of this process: what comes of a call is what comes of it over a connection."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bellwether.journal import Outcome
from bellwether.models.keys import SANDBOX_KEY, Endpoint
from bellwether.models.model import Model
from bellwether.models.wire import Call, ProviderWire, Result
from bellwether.sandbox import Clock, GeneratedWorld, create_app, serve
from bellwether.sandbox.models import Truth
from bellwether.settings import Settings
from bellwether.worlds import addresses

ROOT = Path(__file__).resolve().parents[3]
PROMPT = [{"role": "user", "content": "Question: Will something happen that no market asks about?\nForm: <answer>[yes or no]</answer>"}]


async def ask(application: Any, base: str, name: str = "calibrated", *, key: str = SANDBOX_KEY, timeout: float = 60.0) -> Result:
    model = Model.model_validate({"name": "one", "model": f"sandbox/{name}", "timeout": timeout})
    async with ProviderWire(sandbox=application) as wire:
        return await wire.send(Call(model, Endpoint(base, key), PROMPT, {"temperature": 0}))


async def ask_nobody() -> None:
    """Ask an application that answers nothing of use."""

    async def nobody(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    await ask(nobody, "http://sandbox/v1")


def said(result: Result) -> tuple[Any, ...]:
    reply = result.reply
    return result.outcome, result.reason, result.stop, result.permanent, reply.http_status, reply.body, reply.content, reply.usage


@pytest.mark.parametrize(
    ("name", "key"), [("calibrated", SANDBOX_KEY), ("refusing", SANDBOX_KEY), ("nobody", SANDBOX_KEY), ("calibrated", "")]
)
async def test_a_call_comes_out_as_over_a_connection(name: str, key: str) -> None:
    world = GeneratedWorld(7)
    application = create_app(world, truth=Truth(world), clock=Clock(datetime(2025, 1, 10, tzinfo=UTC)))
    with serve(application) as site:
        over_a_port = await ask(None, site.models, name, key=key)
    in_process = await ask(application, site.models, name, key=key)
    assert said(in_process) == said(over_a_port)
    assert in_process.reply.latency_ms is not None


async def test_who_answers_too_late_is_given_up() -> None:
    async def late(*_: Any) -> None:
        await asyncio.sleep(60)

    result = await ask(late, "http://sandbox/v1", timeout=0.05)
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, "no whole answer in 0.05 seconds")


async def test_an_application_that_fails_is_a_provider_that_fails() -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    result = await ask(broken, "http://sandbox/v1")
    assert (result.outcome, result.reason) == (Outcome.PROVIDER_ERROR, "the application failed (ZeroDivisionError)")
    assert not result.permanent


@pytest.mark.parametrize("faults", ["", "status=0.0"])
async def test_the_sandbox_is_asked_without_a_port_unless_it_has_faults(faults: str, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr("bellwether.sandbox.serve", lambda app: served.append(app) or serve(app))
    with addresses(Settings(sandbox_faults=faults, sandbox_now=datetime(2025, 1, 10, tzinfo=UTC)), served=False) as found:
        assert found.models is not None
        assert (await ask(found.application, found.models)).outcome is Outcome.OK
    assert len(served) == bool(faults)


def test_no_http_client_is_loaded_to_ask_in_the_process() -> None:
    script = "import asyncio, sys; from tests.models.wire.test_in_process import ask_nobody; asyncio.run(ask_nobody()); print('aiohttp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "False"
