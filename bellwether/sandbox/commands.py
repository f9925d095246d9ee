"""`bellwether sandbox`: the sandbox as a server of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from bellwether.console import console
from bellwether.sandbox.server import serve
from bellwether.sandbox.worlds import application
from bellwether.settings import World, settings


@click.command()
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--seed", type=int, help="Seed of the generated world; BELLWETHER_SANDBOX_SEED when left out.")
@click.option(
    "--playback", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Serve recorded bodies from this folder instead."
)
@click.option("--faults", help="Faults on demand, such as status=0.1,cut=0.05; BELLWETHER_SANDBOX_FAULTS when left out.")
@click.option("--run/--stand", default=False, show_default=True, help="Let its clock run at BELLWETHER_SANDBOX_SPEED.")
def sandbox(port: int, seed: int | None, playback: Path | None, faults: str | None, run: bool) -> None:
    """Serve the sandbox on 127.0.0.1 until interrupted, to look at it with a browser or a client of your own."""
    chosen: dict[str, Any] = {"world": World.SANDBOX if playback is None else World.PLAYBACK, "playback": playback}
    if seed is not None:
        chosen["sandbox_seed"] = seed
    if faults is not None:
        chosen["sandbox_faults"] = faults
    app = application(settings().model_copy(update=chosen), running=run)
    with serve(app, port=port) as site:
        for service in ("kalshi", "kalshi_stream", "gamma", "clob", "models", "control"):
            console().print(f"{service:<14} {getattr(site, service)}", soft_wrap=True)
        console().print(f"Try {site.kalshi}/events?status=settled&limit=1; Ctrl-C ends it", soft_wrap=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console().print("stopped")
