"""DAGSTER_HOME: made on first use, so that history is never written to a folder that vanishes."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from bellwether.settings import Settings


def prepare(config: Settings) -> Path:
    """Make DAGSTER_HOME of this world with its dagster.yaml, point this process at it and switch telemetry off.

    A DAGSTER_HOME that the user has set is left as it is.
    """
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(config.dagster_home)))
    home.mkdir(parents=True, exist_ok=True)
    target = home / "dagster.yaml"
    if not target.exists():
        partial = target.with_suffix(".yaml.tmp")
        partial.write_text((files("orchestration") / "dagster.yaml").read_text())
        partial.replace(target)
    return home
