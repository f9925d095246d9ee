"""Commands of `bellwether` that run the whole graph: demo and ui.

Not here: commands of a domain (assets/<domain>), and commands that only read (bellwether). Dagster is imported inside the commands.
"""

from __future__ import annotations

import sys

import click

from bellwether.console import AS_JSON
from bellwether.domains import domains, resolve
from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import World, settings
from bellwether.text_tables import visible
from orchestration.session import close, require_success, runner


@click.command()
@click.option("--days", default=90, show_default=True, type=click.IntRange(1, 2000), help="Days to pull, up to the sandbox's present.")
@AS_JSON
def demo(days: int, as_json: bool) -> None:
    """Run everything in the sandbox: pull, clean, check, ask, score, rank, replay recorded markets, publish.

    Needs no key and no network. What is fresh is not made again. Ends with the leaderboard, and with what agents earned.
    """
    if settings().world is not World.SANDBOX:
        raise ConfigError(
            f"bellwether demo: BELLWETHER_WORLD is {settings().world}; the demo runs in the sandbox. Use `bellwether run` here"
        )
    ends: dict[str, BellwetherError | None] = {}
    with runner() as work:
        for domain in domains():
            if domain.demo:
                ends |= resolve(domain.demo)(work, days)
        require_success(ends)
    results = [resolve(domain.results)(as_json) for domain in domains() if domain.results]
    close(work, as_json, results={name: value for found in results for name, value in found.items()})


@click.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port on 127.0.0.1.")
def ui(port: int) -> None:
    """Serve Dagster's UI and run its daemon (schedules, sensors, backfills) on 127.0.0.1 until interrupted."""
    from orchestration.serve import serve

    code = serve(settings(), port, lambda text: click.echo(visible(text, "\n"), err=True))
    if code:
        sys.exit(code)
