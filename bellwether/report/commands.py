"""`bellwether report`: write the report of a release from the published warehouse."""

from __future__ import annotations

import click

from bellwether.console import console, emit
from bellwether.settings import settings


@click.command()
@click.argument("release")
@click.option("--to", "reports", help="Folder or object-store URL; BELLWETHER_REPORTS when left out. The release gets a folder in it.")
@click.option("--revision", help="Revision of the code, for the metadata.")
@click.option("--json", "as_json", is_flag=True, help="Print the names of the files as JSON.")
def report(release: str, reports: str | None, revision: str | None, as_json: bool) -> None:
    """Write the report of RELEASE: a JSON file per model with all its predictions, a summary, metadata, the dataset analysis, and a page
    in Markdown with figures. It is made from the published warehouse; docs/report.md describes the files.
    """
    from bellwether.report.inputs import read_inputs, registered
    from bellwether.report.write import write_report

    found = read_inputs(settings().warehouse_path, release, revision=revision)
    files = write_report(registered(found), reports or settings().reports_uri)
    if as_json:
        emit(files)
        return
    for file in files:
        console().print(file, markup=False, soft_wrap=True)
