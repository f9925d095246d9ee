"""Sheet of all forecasts to score, a row per forecaster and question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from bellwether.calibration.clusters import Clusters
from bellwether.calibration.comparison import Panel
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.scoring.columns import ColumnRoles
from bellwether.scoring.table import ForecastTable

#: Name of the market as a forecaster.
MARKET = "market"


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """A table, its column roles, and its rows in the form of a sheet, whose column `row` is the row number in the table."""

    table: ForecastTable
    columns: ColumnRoles
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """Forecasts with one row per forecaster and question.

    frame: forecaster, question, probability (null without a forecast), outcome, market (null without a price), weight; the
        clusters as cluster_0 and, two-way, cluster_1; the groups as by_0, by_1 and so on; and the numbers of the forecaster and the question,
        forecaster_index and question_index.
    sources: names of the tables. columns: column roles of the first table.
    by: columns of groups.
    clusters: description of the clusters.
    notes: remarks for readers of the scores.
    """

    frame: pl.DataFrame
    sources: tuple[str, ...]
    columns: ColumnRoles
    by: tuple[str, ...]
    clusters: str
    notes: tuple[str, ...] = ()

    @property
    def is_paired(self) -> bool:
        """True if forecasts of different forecasters can be matched by question."""
        return bool(self.columns.question) or len(self.columns.probability) > 1

    @property
    def forecasters(self) -> list[str]:
        """Names of the forecasters in the order of `forecaster_index`."""
        names = self.frame.unique("forecaster_index").sort("forecaster_index")["forecaster"]
        return [str(name) for name in names]

    def panel(self) -> Panel:
        """Build the panel of all forecasters' forecasts by question."""
        names = self.forecasters
        questions = self.frame.unique("question_index", keep="first").sort("question_index")
        p = np.full((questions.height, len(names)), np.nan)
        p[self.frame["question_index"].to_numpy(), self.frame["forecaster_index"].to_numpy()] = to_floats(self.frame["probability"])
        outcome = questions["outcome"].to_numpy()
        right = (p >= 0.5) == (outcome == 1)[:, None]
        return Panel(tuple(names), p, right, outcome, _scaled(questions["weight"]), _clusters(questions))


def build_arrays(rows: pl.DataFrame) -> tuple[Forecasts, Clusters]:
    """Convert the rows that have a forecast to arrays and clusters, sorted by value so that the order of rows has no effect on simulated
    numbers.
    """
    ways = [name for name in _WAYS if name in rows.columns]
    present = rows.filter(pl.col("probability").is_not_null()).sort("probability", "outcome", "weight", "market", *ways, "question")
    forecasts = Forecasts.of(
        present["probability"].to_numpy(),
        present["outcome"].to_numpy(),
        market=to_floats(present["market"]),
        weights=_scaled(present["weight"]),
    )
    return forecasts, _clusters(present)


_WAYS = ("cluster_0", "cluster_1")


def _clusters(rows: pl.DataFrame) -> Clusters:
    return Clusters.of(rows.select(name for name in _WAYS if name in rows.columns), rows.height)


def _scaled(weights: pl.Series) -> Floats:
    """Divide weights by a power of two, so that the largest is about 1 and sums of squares cannot overflow."""
    values = to_floats(weights)
    return np.ldexp(values, -int(np.frexp(values.max(initial=1e-300))[1]) + 1) if len(values) else values


def to_floats(values: pl.Series) -> Floats:
    """Convert numbers to an array, with NaN for missing values."""
    return np.asarray(values.fill_null(float("nan")).to_numpy(), dtype=np.float64)
