"""The client against the sandbox's provider over real connections: each failure ends in an answer or a row with its reason."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bellwether.journal import Journal, Outcome, State
from bellwether.journal.writer import _MOST as MOST_TOGETHER
from bellwether.models.client import Answer, ModelClient, Retry
from tests.models.provider import endpoint_at, personality, provider

ROOT = Path(__file__).resolve().parents[2]
#: The same bounds, with shorter waits.
HASTY = Retry(base=0.02, cap=0.1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as opened:
        yield opened


def asking(journal: Journal, url: str, **options: Any) -> ModelClient:
    return ModelClient(journal, **{"endpoint": endpoint_at(url), "run": "run", "retry": HASTY, "seed": 1, **options})


async def ask(client: ModelClient, prompt: str, model: Any = None, **options: Any) -> Any:
    return await client.ask(model or personality(), [{"role": "user", "content": prompt}], purpose="benchmark/forecasts", **options)


async def test_in_bad_weather_every_call_is_answered_once(journal: Journal) -> None:
    with provider(rates={"429": 0.03, "503": 0.1, "cut": 0.1, "html": 0.1}) as (doorman, url):
        async with asking(journal, url) as client:
            found = await asyncio.gather(*(ask(client, f"Question {number}") for number in range(150)))
            stats = client.stats["sandbox-calibrated"]
        assert all(isinstance(one, Answer) for one in found)
        assert stats.answered == 150
        assert doorman.total == stats.asked == 150 + stats.failures.total()
        assert {Outcome.PROVIDER_ERROR, Outcome.MALFORMED} <= set(stats.failures)
        async with asking(journal, url) as client:
            again = await asyncio.gather(*(ask(client, f"Question {number}") for number in range(150)))
        assert all(one.reused for one in again)
        assert doorman.total == stats.asked


def test_the_example_of_the_documentation_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    with provider() as (_, url):
        replaced = {"/srv/bellwether": str(tmp_path), "endpoints(None)": f"endpoints({url!r})", '"gpt-4o"': '"sandbox-calibrated"'}
        code = example[1]
        for old, new in replaced.items():
            assert old in code
            code = code.replace(old, new)
        names: dict[str, Any] = {}
        exec(code, names)
        asyncio.run(names["main"]())
    assert "robability" in capsys.readouterr().out


# --- killed ----------------------------------------------------------------------------------------------------------

EVALUATION = """
import asyncio, sys
from bellwether.journal import Journal
from bellwether.models.client import ModelClient
from tests.models.provider import endpoint_at, personality

async def main(url, address, count):
    with Journal(address) as journal:
        async with ModelClient(journal, endpoint=endpoint_at(url), run="run") as client:
            asked = [client.ask(personality(timeout=600.0), [{"role": "user", "content": f"Question {number}"}], purpose="benchmark/forecasts")
                     for number in range(count)]
            for one in asyncio.as_completed(asked):
                await one
                print("answered", flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
async def test_after_an_evaluation_was_killed_nothing_answered_is_asked_twice(tmp_path: Path, sign: signal.Signals) -> None:
    address = f"sqlite:///{tmp_path}/journal.db"
    with provider(latency=0.05, most=60) as (doorman, url):
        command = [sys.executable, "-c", EVALUATION, url, address, "80"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            try:
                assert running.stdout is not None
                await asyncio.to_thread(lambda: [running.stdout.readline() for _ in range(25)])  # type: ignore[union-attr]
                os.kill(running.pid, sign)
                await asyncio.to_thread(running.wait, 300)  # it begins no further call and does not wait for pending answers
            finally:
                running.kill()
        doorman.most = None
        journal = Journal(address)
        answered = journal.counts().filter(state="answered")["calls"].sum()
        assert 25 <= answered <= 60
        if sign == signal.SIGINT:
            assert {status.state for status in journal.pending()} <= {State.OPEN}
        started = time.monotonic()
        async with asking(journal, url) as client:
            found = await asyncio.gather(*(ask(client, f"Question {number}", personality(timeout=600.0)) for number in range(80)))
    assert time.monotonic() - started < 300  # far less than the leases of the killed process
    assert all(isinstance(one, Answer) for one in found)
    assert sum(one.reused for one in found) == answered
    asked_twice = [prompt for prompt, count in doorman.asked.items() if count > 1]
    # At that moment at most ten calls were in progress, and the replies of at most one transaction were about to be stored.
    assert len(asked_twice) == doorman.total - 80 <= 10 + MOST_TOGETHER
    outcomes = journal.export()["attempts"]["outcome"].to_list()
    assert (outcomes.count("ok"), outcomes.count("abandoned")) == (80, len(outcomes) - 80)


async def test_two_processes_that_evaluate_the_same_share_the_work(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/journal.db"
    with provider(latency=0.02) as (doorman, url):
        command = [sys.executable, "-c", EVALUATION, url, address, "60"]
        other = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        assert other.stdout is not None
        await other.stdout.readline()
        async with asking(Journal(address), url) as client:
            found = await asyncio.gather(*(ask(client, f"Question {number}", personality(timeout=600.0)) for number in range(60)))
        assert await other.wait() == 0
    assert all(isinstance(one, Answer) for one in found)
    assert set(doorman.asked.values()) == {1}
    assert doorman.total == 60
