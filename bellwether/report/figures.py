"""The figures of a report: which there are, of what, and what is written below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from bellwether.report.inputs import Inputs


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: `name` begins its file's name, `draw` makes the PNG, `about` says in the list of files what it is, else the caption does."""

    name: str
    caption: str
    draw: Callable[[], bytes]
    about: str = ""

    def file(self, stamp: str) -> str:
        """Name of its file in a report of that time."""
        return f"{self.name}_{stamp}.png"


def release_figures(inputs: Inputs) -> Iterator[Figure]:
    """Figures that show all forecasters of the release; by the distance from the cutoff where any states one."""
    from bellwether.report import plots

    release, forecasts, questions = inputs.release, inputs.forecasts, inputs.questions
    yield Figure(
        "scores",
        "Brier scores with 95 % intervals over clusters; letters are significance groups.",
        lambda: plots.score_comparison(inputs.leaderboard),
    )
    yield Figure(
        "coverage",
        "What became of each forecaster's questions.",
        lambda: plots.coverage_bars(forecasts, questions, f"Questions answered: {release}"),
    )
    yield Figure(
        "brier_over_time",
        "Mean Brier score by the month in which the questions were resolved, with intervals.",
        lambda: plots.brier_over_time(forecasts, questions, f"Brier score over time: {release}", names=inputs.forecasters),
    )
    if inputs.scores["scope"].str.starts_with("distance:").any():
        title = f"Brier score by distance from the cutoff: {release}"
        yield Figure(
            "score_by_distance",
            "Brier score by the time from the knowledge cutoff to the resolution.",
            lambda: plots.score_by_distance(inputs.scores, title, names=inputs.forecasters),
        )


def forecaster_figures(inputs: Inputs, forecaster: str, file: str) -> Iterator[Figure]:
    """Figures of one forecaster; `file` is its name as file names have it."""
    from bellwether.report.calibration_pictures import confidence_picture, reliability_picture

    bins = inputs.reliability.filter(pl.col("forecaster") == forecaster)
    forecasts = inputs.forecasts.filter(pl.col("forecaster") == forecaster)
    title = f"{forecaster} on {inputs.release}"
    yield Figure(
        f"reliability_{file}",
        "Reliability: observed frequency of yes against the forecast, with Wilson intervals, counts, the CORP curve, and where calibrated"
        " forecasts would lie.",
        lambda: reliability_picture(bins, forecasts, inputs.questions, title),
        f"{forecaster}: reliability diagram",
    )
    yield Figure(
        f"confidence_{file}",
        "How often it was right at each confidence.",
        lambda: confidence_picture(forecasts, inputs.questions, title),
        f"{forecaster}: how often it was right at each confidence",
    )
