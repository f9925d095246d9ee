"""DAGSTER_HOME: made on first use, so that history is never written to a folder that vanishes."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from bellwether.settings import Settings
from orchestration.precedence import runs_at_once

#: The code location, as workspace.yaml calls it.
LOCATION = "bellwether"


def settings_file() -> str:
    """Dagster's settings for this machine, as YAML."""
    runs, automatic = runs_at_once()
    text = (files("orchestration") / "dagster.yaml").read_text()
    return text.replace("max_concurrent_runs: 2", f"max_concurrent_runs: {runs}").replace("limit: 1}", f"limit: {automatic}}}")


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
        partial.write_text(settings_file())
        partial.replace(target)
    return home
