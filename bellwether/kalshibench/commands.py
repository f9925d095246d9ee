"""`bellwether compat`: a KalshiBench results folder as published, recomputed and corrected, side by side."""

from __future__ import annotations

from pathlib import Path

import click

from bellwether.console import console, emit


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--labels", type=click.Path(path_type=Path), help="Outcomes of the entries, which KalshiBench's files lack: CSV, Parquet or JSON."
)
@click.option("--model", "models", multiple=True, help="Show this model, number by number; may be repeated.")
@click.option(
    "--replicates", default=10_000, show_default=True, type=click.IntRange(0), help="Replicates of the bootstrap; 0 for no interval."
)
@click.option("--seed", default=1950, show_default=True, help="Seed of the bootstrap and the permutations.")
@click.option(
    "--figures", type=click.Path(file_okay=False, path_type=Path), help="Also draw the figures of docs/kalshibench.md into this folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def compat(
    folder: Path, *, labels: Path | None, models: tuple[str, ...], replicates: int, seed: int, figures: Path | None, as_json: bool
) -> None:
    """Set the published numbers of a KalshiBench results FOLDER beside what comes out of its predictions, by the same rules and corrected.

    Corrected means: each number read in agreement with its answer, each entry scored with its own outcome, p = 1 in a bin, ties averaged, with
    95 % intervals and paired tests. docs/kalshibench.md explains. FOLDER may hold the folders of tiers; Bellwether's own reports are read too.
    """
    from bellwether.calibration import Bootstrap
    from bellwether.kalshibench import examine, read_labels, read_results
    from bellwether.kalshibench.show import document, print_examination

    given = None if labels is None else read_labels(labels)
    examination = examine(read_results(folder), given, names=models, bootstrap=Bootstrap(replicates, seed))
    if as_json:
        emit(document(examination))
    else:
        print_examination(console(), examination, in_full=bool(models))
    if figures is not None:
        from bellwether.kalshibench.figures import write_figures

        written = write_figures(examination, figures)
        click.echo(f"wrote {', '.join(str(path) for path in written)}", err=True)
