"""A search that was paid for is not repeated after the process was killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.unit.models.stub import Stub

pytest.importorskip("parallel", reason="the extra `search` is not installed")


@pytest.mark.nightly
async def test_a_process_killed_between_search_and_answer_searches_once(tmp_path: Path) -> None:
    from tests.unit.forecasting.test_searches import PAGES, respond

    async def run(*words: str) -> tuple[int | None, str]:
        command = [sys.executable, "-m", "tests.processes.killed_search", str(tmp_path), server.root, *words]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        shown, _ = await process.communicate()
        return process.returncode, shown.decode().strip()

    async with Stub(respond(*PAGES)) as server:
        assert await run("kill") == (-signal.SIGKILL, "")
        assert len(server.asked) == 1
        assert [await run(), await run()] == [(0, "0.8")] * 2
        assert len(server.asked) == 1
