"""The client against the sandbox's provider over real connections: whatever goes wrong is an answer after all, or a row with its reason."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.journal import Journal, Outcome, State
from bellwether.journal.writer import _MOST as MOST_TOGETHER
from bellwether.models.client import Answer, Limits, ModelClient, NoAnswer, Retry, Stopped
from bellwether.models.keys import Endpoint
from tests.models.provider import at, personality, provider

ROOT = Path(__file__).resolve().parents[2]
#: The same bounds, in less time.
HASTY = Retry(base=0.02, cap=0.1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as opened:
        yield opened


def asking(journal: Journal, url: str, **options: Any) -> ModelClient:
    return ModelClient(journal, **{"endpoint": at(url), "run": "run", "retry": HASTY, "seed": 1, **options})


async def ask(client: ModelClient, prompt: str, model: Any = None, **options: Any) -> Any:
    return await client.ask(model or personality(), [{"role": "user", "content": prompt}], purpose="benchmark/forecasts", **options)


async def test_an_answer_comes_with_its_usage_cost_and_reasoning(journal: Journal) -> None:
    with provider() as (_, url):
        async with asking(journal, url) as client:
            answer = await ask(client, "Will it rain?", personality("overconfident"))
    assert isinstance(answer, Answer)
    assert answer.content
    assert answer.reasoning
    assert answer.usage.prompt_tokens
    assert answer.usage.cost == answer.usage.prompt_tokens + (answer.usage.completion_tokens or 0)
    stored = journal.answer(answer.key)
    assert stored is not None
    assert stored.reply.body.startswith(b"{")


@pytest.mark.parametrize("fault", ["cut=2", "html=2", "status=2", "storm=3"])
async def test_what_goes_wrong_on_the_way_is_asked_again_until_it_comes(journal: Journal, fault: str) -> None:
    with provider() as (doorman, url):
        async with asking(journal, url) as client:
            answer = await ask(client, f"[{fault}] Will it rain?")
            failures = client.stats["sandbox-calibrated"].failures
    count = int(fault.partition("=")[2])
    assert isinstance(answer, Answer)
    assert (answer.attempts, doorman.total, failures.total()) == (count + 1, count + 1, count)


async def test_a_body_that_stalls_is_a_timeout(journal: Journal) -> None:
    with provider() as (doorman, url):
        async with asking(journal, url, retry=Retry(attempts=2, base=0.01)) as client:
            missed = await ask(client, "[stall=5] Will it rain?", personality(timeout=1.0))
    assert isinstance(missed, NoAnswer)
    assert (missed.outcome, missed.final, missed.attempts, doorman.total, missed.usage.cost) == (Outcome.TIMEOUT, False, 2, 2, None)
    assert journal.pending()[0].state == State.OPEN


@pytest.mark.parametrize(
    ("prompt", "outcome", "reason"),
    [
        ("[filtered] Will it rain?", Outcome.REFUSAL, "content_filter"),
        ("[only reasoning] Will it rain?", Outcome.TRUNCATION, "cut"),
        ("[empty] Will it rain?", Outcome.MALFORMED, "without text"),
    ],
)
async def test_the_models_last_word_without_an_answer_is_paid_once(journal: Journal, prompt: str, outcome: Outcome, reason: str) -> None:
    with provider() as (doorman, url):
        for reused in (False, True):
            async with asking(journal, url) as client:
                missed = await ask(client, prompt)
            assert isinstance(missed, NoAnswer)
            assert (missed.outcome, missed.final, missed.reused, missed.usage.cost) == (outcome, True, reused, 150)
            assert reason in missed.reason
    assert doorman.total == 1
    assert journal.spent().spent == 150


async def test_an_answer_of_a_megabyte_is_kept(journal: Journal) -> None:
    with provider() as (_, url):
        async with asking(journal, url) as client:
            answers = await asyncio.gather(
                *(ask(client, f"Will it rain on day {day}?", personality("malformed", max_tokens=1 << 20)) for day in range(40))
            )
    assert max(len(answer.content) for answer in answers if isinstance(answer, Answer)) == 2**20


@pytest.mark.parametrize(
    ("key", "model", "kind", "said"),
    [
        ("sandbox-broke", personality(), "out_of_credit", "add credit"),
        ("sandbox-expired", personality(), "authentication", "set the right key"),
        ("wrong-key-0123456789", personality(), "authentication", "set the right key"),
        ("sandbox-good", personality("nobody"), "unknown_model", "does not exist"),
    ],
)
async def test_what_only_a_person_can_mend_stops_the_model(journal: Journal, key: str, model: Any, kind: str, said: str) -> None:
    with provider() as (doorman, url):
        async with asking(journal, url, endpoint=at(url, key)) as client:
            found = await asyncio.gather(*(ask(client, f"Question {number}", model) for number in range(60)), return_exceptions=True)
    assert {one.kind for one in found if isinstance(one, Stopped)} == {kind}
    assert len([one for one in found if isinstance(one, Stopped)]) == 60
    assert all(said in str(one) and key not in str(one) for one in found)
    assert doorman.total <= model.concurrency * 2
    assert {status.state for status in journal.pending()} == {State.OPEN}
    assert journal.failures() == []


async def test_in_bad_weather_every_call_is_answered_once(journal: Journal) -> None:
    with provider(rates={"storm": 0.01, "status": 0.1, "cut": 0.1, "html": 0.1}) as (doorman, url):
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


async def test_a_budget_stops_before_it_is_passed_and_resuming_pays_nothing_twice(journal: Journal) -> None:
    with provider() as (doorman, url):
        async with asking(journal, url, limits=Limits(dollars=Decimal("0.006"))) as client:
            found = await asyncio.gather(*(ask(client, f"Question {number}") for number in range(150)), return_exceptions=True)
        done = [one for one in found if isinstance(one, Answer)]
        assert {one.kind for one in found if isinstance(one, Stopped)} == {"budget"}
        assert 0 < len(done) < 150
        assert 0 < journal.spent().committed <= 6000
        assert doorman.total == len(done)
        async with asking(journal, url, limits=Limits(dollars=Decimal(1))) as client:
            found = await asyncio.gather(*(ask(client, f"Question {number}") for number in range(150)))
        assert doorman.total == 150
        assert sum(one.reused for one in found) == len(done)


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
from tests.models.provider import at, personality

async def main(url, address, count):
    with Journal(address) as journal:
        async with ModelClient(journal, endpoint=at(url), run="run") as client:
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
                await asyncio.to_thread(running.wait, 300)  # it begins nothing more, and waits for no answer that is on its way
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
    assert time.monotonic() - started < 300  # far less than the leases of the process that died
    assert all(isinstance(one, Answer) for one in found)
    assert sum(one.reused for one in found) == answered
    asked_twice = [prompt for prompt, count in doorman.asked.items() if count > 1]
    # At that moment ten at most were under way, and the replies of one transaction at most were about to be stored.
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


async def test_no_key_reaches_the_journal_or_an_error(journal: Journal, tmp_path: Path) -> None:
    key = "sk-verysecret-0123456789"
    with provider() as (_, url):
        async with asking(journal, url, endpoint=lambda model: Endpoint(url, key)) as client:
            with pytest.raises(Stopped) as stopped:
                await ask(client, "Will it rain?")
    journal.close()
    assert key not in str(stopped.value)
    assert all(key.encode() not in path.read_bytes() for path in tmp_path.iterdir())
