"""What the targets of the Makefile share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_python_keeps_what_it_compiles_also_where_the_environment_says_otherwise() -> None:
    """The installation compiles nothing: processes that keep nothing either would compile Dagster and all the rest at each start."""
    target = 'shown:\n\t@echo "<$$PYTHONDONTWRITEBYTECODE>"\n'
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["make", "-s", "-f", "Makefile", "-f", "-", "shown"]
    done = subprocess.run(command, input=target, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "<>\n"
