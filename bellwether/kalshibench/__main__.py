"""Prints the comparison of published KalshiBench numbers with their recomputation."""

from __future__ import annotations

from pathlib import Path

import click
import polars as pl

from bellwether.console import console, grid
from bellwether.errors import BellwetherError
from bellwether.kalshibench import compare_numbers, read_labels, read_results
from bellwether.kalshibench.comparison import Status


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="Outcomes of the entries: CSV, Parquet or JSON.")
def main(path: Path, *, labels: Path | None) -> None:
    """Recompute the numbers of KalshiBench's result files from their predictions.

    PATH is a result file or a folder of them. The exit code is 1 if a number differs. docs/benchmark.md describes the labels.
    """
    try:
        numbers = compare_numbers(read_results(path), None if labels is None else read_labels(labels))
    except BellwetherError as error:
        raise click.ClickException(str(error)) from None
    by_file = numbers.partition_by("source", as_dict=True, maintain_order=True)
    counts = [
        {"file": source, **{status: rows["status"].to_list().count(status) for status in Status}} for (source,), rows in by_file.items()
    ]
    console().print(grid(pl.DataFrame(counts), title="Published numbers"))
    others = numbers.filter(pl.col("status") != Status.EQUAL)
    differing = others.filter(pl.col("reason").is_null()).drop("source", "reason")
    if differing.height:
        console().print(grid(differing, title="Not equal"))
    reasons = others.drop_nulls("reason").group_by("model", "reason", maintain_order=True).agg(pl.len().alias("numbers"))
    if reasons.height:
        console().print(grid(reasons, title="Not recomputed"))
    raise SystemExit(int((numbers["status"] == Status.DIFFERS).any()))


if __name__ == "__main__":
    main(prog_name="python -m bellwether.kalshibench")
