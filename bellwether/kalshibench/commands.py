"""`bellwether compat`: KalshiBench results as published, recomputed and corrected, side by side."""

from __future__ import annotations

from pathlib import Path

import click

from bellwether.console import console, emit


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--labels", type=click.Path(path_type=Path), help="Outcomes of the entries, which KalshiBench's files lack: CSV, Parquet or JSON."
)
@click.option("--model", "models", multiple=True, help="Show this model, number by number; may be repeated.")
@click.option(
    "--clusters",
    type=click.Choice(["family", "series"]),
    default="family",
    show_default=True,
    help="What intervals and paired tests take as independent: families of events, or single series.",
)
@click.option(
    "--replicates",
    default=10_000,
    show_default=True,
    type=click.IntRange(0),
    help="Replicates of simulated distributions; 0 for no test of calibration.",
)
@click.option("--seed", default=1950, show_default=True, help="Seed of simulated distributions.")
@click.option(
    "--figures", type=click.Path(file_okay=False, path_type=Path), help="Also draw the figures of docs/kalshibench.md into this folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def compat(
    path: Path,
    *,
    labels: Path | None,
    models: tuple[str, ...],
    clusters: str,
    replicates: int,
    seed: int,
    figures: Path | None,
    as_json: bool,
) -> None:
    """Recompute the published numbers of KalshiBench results from their predictions, by the same rules and corrected.

    Corrected means: each number read in agreement with its answer, each entry scored with its own outcome, p = 1 in a bin, ties averaged, with
    95 % intervals and paired tests. docs/kalshibench.md explains. PATH is a result file or a folder, which may hold the folders of tiers;
    Bellwether's own reports are read too. A file that cannot be read is skipped with a warning.
    """
    from bellwether.kalshibench import examine, read_labels, read_results
    from bellwether.kalshibench.export import document
    from bellwether.kalshibench.show import print_examination

    given = None if labels is None else read_labels(labels)
    results = read_results(path)
    for sentence in results.damaged:
        click.echo(f"Warning: a file is skipped: {sentence}", err=True)
    examination = examine(results, given, names=models, replicates=replicates, seed=seed, clusters=clusters)
    if as_json:
        emit(document(examination))
    else:
        print_examination(console(), examination, in_full=bool(models))
    if figures is not None:
        from bellwether.kalshibench.figures import write_figures

        written, left_out = write_figures(examination, figures)
        for sentence in left_out:
            click.echo(f"Not drawn: {sentence}", err=True)
        click.echo(f"wrote {', '.join(str(file) for file in written)}", err=True)
