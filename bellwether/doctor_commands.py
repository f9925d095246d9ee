"""`bellwether doctor`: shows what `bellwether.doctor` and `bellwether.connections` find."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from bellwether.console import AS_JSON, console, emit
from bellwether.settings import settings


@click.command()
@click.option("--live", is_flag=True, help="Try every venue and every configured key once instead; no key is shown.")
@AS_JSON
def doctor(live: bool, as_json: bool) -> None:
    """Check versions, folders, registry, venue and warehouse, and say how to fix what is wrong. Exits 1 if something is.

    With --live it makes one harmless call to Kalshi, its WebSocket, Polymarket's two interfaces, and each provider of models whose key is set
    (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...; OPENAI_API_BASE and its like are honoured).
    """
    if live:
        _try_connections(as_json)
        return
    from bellwether.doctor import examine

    findings = examine(settings())
    if as_json:
        emit([{"check": found.check, "status": found.status, "found": found.found, "advice": found.advice} for found in findings])
    else:
        for found in findings:
            mark = {"ok": "[green]ok  [/green]", "note": "[yellow]note[/yellow]", "bad": "[red]bad [/red]"}[found.status]
            console().print(mark, end=" ")
            console().print(f"{found.check}: {found.found}", markup=False, soft_wrap=True)
            if found.advice:
                console().print(f"     {found.advice}", markup=False, soft_wrap=True)
    if any(found.status == "bad" for found in findings):
        sys.exit(1)


def _try_connections(as_json: bool) -> None:
    from bellwether.connections import try_connections

    tried = try_connections(settings())
    if as_json:
        emit([asdict(one) for one in tried])
    else:
        colours = {"ok": "green", "not set": "yellow", "refused": "red", "unreachable": "red"}
        for one in tried:
            latency = "" if one.milliseconds is None else f"{one.milliseconds} ms"
            console().print(f"[{colours[one.status]}]{one.status:<11}[/] {latency:>8}", end=" ")
            console().print(f"{one.name}: {one.found}", markup=False, soft_wrap=True)
            if one.is_bad:
                console().print(f"{'':<20} {one.advice}", markup=False, soft_wrap=True)
    if any(one.is_bad for one in tried):
        sys.exit(1)
