"""Shared settings of the Makefile's targets, and their use in CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("fails", ["", "lint", "test", "test-fleet", "test-browser", "setup-dev"])
def test_ci_fails_where_a_target_does_and_ends_with_what_lint_found(tmp_path: Path, fails: str) -> None:
    script = tmp_path / "clone" / ".ci" / "run"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", script)
    _program(tmp_path / "bin" / "make", f'echo "of $1"; [ "$1" != "{fails}" ]')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (fails == "")
    ran = ["of setup-dev", "of test", "of test-fleet", "of test-browser", "make lint:", "of lint"]
    assert done.stdout.splitlines() == (ran[:1] if fails == "setup-dev" else ran)
    assert done.stderr.splitlines() == ([f"make {fails} failed"] if fails in ("lint", "test", "test-fleet", "test-browser") else [])


def test_prose_above_its_limits_fails_with_each_hit_and_its_replacement(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "module.py").write_text('"""Nobody is asked."""\n\nSHOWN = "nobody"  # as it came\n')
    (tmp_path / "page.md").write_text("A user says so.\n\n```text\nnobody\n```\n")
    (tmp_path / ".ci" / "prose.conf").write_text(re.sub(r"docs = \d+", "docs = 0", (ROOT / ".ci" / "prose.conf").read_text()))
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    command = [sys.executable, ".ci/prose.py", "--list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "1 phrases in docs, at most 0: see .ci/prose.conf\n"
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()] == [
        ["module.py:1", "'is asked'"],
        ["module.py:3", "'as it came'"],
        ["page.md:1", "'says'"],
    ]
