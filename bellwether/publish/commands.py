"""`bellwether export`: a release of the published warehouse as a Hugging Face dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bellwether.console import console
from bellwether.errors import ConfigError, suggestion
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.questions import Release


@click.command()
@click.argument("release")
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write; an earlier export is replaced.",
)
@click.option("--license", "license_id", default="mit", show_default=True, help="Licence, as the Hub writes it.")
@click.option(
    "--upload",
    "repository",
    metavar="OWNER/NAME",
    help="Upload it as this dataset of the Hugging Face Hub (HF_TOKEN, extra `huggingface`).",
)
@click.option("--private", is_flag=True, help="Make the uploaded dataset private.")
def export(release: str, folder: Path, license_id: str, repository: str | None, private: bool) -> None:
    """Write RELEASE from the published warehouse as a dataset folder: Parquet and a card. docs/publishing.md tells more."""
    from bellwether.lake.warehouse import query
    from bellwether.publish import export as write
    from bellwether.publish import upload

    if private and repository is None:
        raise ConfigError("exporting: --private is for an upload; name the dataset with --upload OWNER/NAME, or leave --private out")
    questions = query(settings().warehouse_path, "FROM benchmark.questions WHERE release = $release", {"release": release})
    if questions.is_empty():
        there = query(settings().warehouse_path, "SELECT DISTINCT release FROM benchmark.questions ORDER BY ALL")["release"].to_list()
        raise ConfigError(f"exporting {release!r}: the warehouse has no such release; {suggestion(release, there)}")
    written = write(questions, folder, world=settings().world, recipe=_recipe(release), license_id=license_id)
    console().print(f"{written.rows} questions of {release} in {written.folder}", markup=False, soft_wrap=True)
    if repository is not None:
        console().print(f"published at {upload(written.folder, repository, private=private)}", markup=False, soft_wrap=True)


def _recipe(name: str) -> Release | None:
    """The registry's entry of a release; None where there is none any more."""
    from bellwether.questions import ReleaseName, release, releases

    return release(name) if ReleaseName.parse(name).base in releases() else None
