"""Market prices as a baseline, and checks for final prices, which are known only after the fact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from bellwether.errors import ScoringError
from bellwether.scoring.columns import (
    FINAL_PRICES,
    PRICE_WORDS,
    ColumnRoles,
    find_named,
    find_words,
    format_names,
    format_option,
    is_final_price,
)
from bellwether.scoring.forecast_sheet import MARKET, TableRows
from bellwether.scoring.parsing import refuse, to_texts
from bellwether.scoring.table import ForecastTable

#: Maximum distance of the price of a decided market from the outcome.
NEAR = 0.02

#: Share of prices near the outcome above which prices are refused, and above which a note is added.
_REFUSED, _NOTED = 0.9, 0.5

#: Minimum number of prices for a refusal if they do not equal the outcomes, and for a note on their order.
_FEW, _ORDERED = 10, 20

#: Columns of exports of Bellwether and KalshiBench next to `market_probability`.
_EXPORTED = re.compile(r"ground_truth|price_\d+[hd](_at)?")


def check_final(table: ForecastTable, given: ColumnRoles, columns: ColumnRoles) -> None:
    """Raise `ScoringError` if final prices would be read as forecasts or market prices, by the name of a column or a forecaster. given: roles
    named by the user.
    """
    exported = any(_EXPORTED.fullmatch(column) for column in table.frame.columns)
    unfit = {column for column in table.frame.columns if is_final_price(column)}
    unfit |= set(find_named(table.frame.columns, FINAL_PRICES[:1])) if exported else set()
    forecasts = [column for column in columns.probability if column not in unfit]
    for role, used, named in (
        ("market", (columns.market,), (given.market,)),
        ("probability", columns.probability, given.probability),
    ):
        for column in used:
            if column in unfit:
                subject = f"{format_option(role, column)} names" if column in named else f"the column {column!r} by name holds"
                others = (
                    f"give {' '.join(format_option('probability', other) for other in forecasts)} to leave it out, " if forecasts else ""
                )
                raise ScoringError(
                    f"{table.source}: {subject} a final price, which is known after the fact and no forecast; "
                    f"{others}{_price_advice(table)}, or rename the column if it is a price from the time of the forecasts"
                )
    if columns.forecaster is not None:
        labels = to_texts(table, columns.forecaster)
        name = next((label for label in labels.drop_nulls().unique(maintain_order=True) if is_final_price(label)), None)
        if name is not None:
            row = int((labels == name).arg_max() or 0)
            text = f"{name!r} by name is a final price, which is known after the fact and no forecaster"
            refuse(
                table, row, columns.forecaster, f"{text}; leave its rows out, or rename it if the prices are from the time of the forecasts"
            )


def note_unread_final(table: ForecastTable, columns: ColumnRoles) -> list[str]:
    """Return a note on columns of final prices that are ignored; an empty list without such columns, or if market prices are given."""
    final = [column for column in find_named(table.frame.columns, FINAL_PRICES) if column not in columns.probability]
    if not final or columns.market is not None:
        return []
    return [f"{format_names(final)} by name is a final price, known after the fact, and no baseline: {_price_advice(table)}."]


def _price_advice(table: ForecastTable) -> str:
    earlier = [column for column in table.frame.columns if re.fullmatch(r"price_\d+[hd]", column)]
    example = f" such as {format_option('market', earlier[-1])}" if earlier else ""
    return f"name a price from the time of the forecasts with --market{example}"


def check_prices(frame: pl.DataFrame, parts: Sequence[TableRows]) -> Iterator[str]:
    """Yield notes on market prices that may be final prices, both in the price column and of forecasters named after prices.

    Raises `ScoringError` if the prices nearly equal the outcomes.
    """
    yield from _check_closeness(frame.with_columns(place=None), parts)
    for name in frame["forecaster"].unique(maintain_order=True):
        if find_words(name) & PRICE_WORDS:
            yield from _check_closeness(frame.filter(pl.col("forecaster") == name).with_columns(market="probability"), parts)


def _check_closeness(frame: pl.DataFrame, parts: Sequence[TableRows]) -> Iterator[str]:
    """Yield a note if many prices are close to the outcomes. Raises `ScoringError` if nearly all prices are.

    The column `place` of `frame` is the index of the probability column, null for the price column.
    """
    priced = frame.filter(pl.col("market").is_not_null()).unique(["question", "market"], keep="first", maintain_order=True)
    if priced.is_empty():
        return
    price, outcome = priced["market"].to_numpy(), priced["outcome"].to_numpy()
    near = np.abs(price - outcome) <= NEAR + 1e-9
    settled = int(((price == outcome) & np.isin(price, (0, 1))).sum())
    count, total = int(near.sum()), len(near)
    yes, no = price[outcome == 1], price[outcome == 0]
    apart = len(yes) + len(no) == len(price) and len(yes) > 0 and len(no) > 0 and bool(yes.min() > no.max())
    recoded = apart and len(np.unique(price)) == len(np.unique(outcome))
    if (price == outcome).all() or (total >= _FEW and (recoded or count >= _REFUSED * total)):
        at = int(np.argmax(near))
        part, place = parts[priced["file"][at]], priced["place"][at]
        column = str(part.columns.market) if place is None else part.columns.probability[place]
        finding = f"{count} of {total} prices are within {NEAR:g} of the outcome" if count else f"all {total} prices repeat the outcomes"
        advice = "known after the fact and no forecast of the market; leave the column out, or give prices from the time of the forecasts"
        refuse(part.table, priced["row"][at], column, f"{finding}: they are final prices, {advice}")
    if settled or count > _NOTED * total:
        text_ = f"Of {total} market prices, {f'{settled} equal' if settled else f'{count} are within {NEAR:g} of'} the outcome"
    elif apart and total >= _ORDERED:
        text_ = f"All {total} market prices are on the side of the outcome"
    else:
        return
    yield f"{text_}: check that they are from the time of the forecasts, because a final price is no baseline."


def note_known_outcomes(frame: pl.DataFrame) -> Iterator[str]:
    """Yield a note for each forecaster whose forecasts all equal the outcomes."""
    for name, rows in frame.filter(pl.col("probability").is_not_null()).group_by("forecaster", maintain_order=True):
        if rows.height >= _FEW and (rows["probability"] == rows["outcome"]).all():
            yield f"Every forecast of {name[0]} equals the outcome: check that the column is a forecast."


def add_market(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Add the market's prices as a forecaster; return the rows, and notes. Adds only a note if a question has two prices, or if a
    forecaster already has this name.
    """
    prices = frame.filter(pl.col("market").is_not_null())
    if prices.is_empty():
        return frame, []
    if (frame["forecaster"] == MARKET).any():
        return frame, [f"The prices are not ranked as a forecaster: another one is called {MARKET}."]
    if prices.select("question", "market").unique().height > prices["question"].n_unique():
        return frame, ["The market is not ranked: forecasters on the same question were scored with different prices of it."]
    market = prices.unique("question", keep="first", maintain_order=True)
    last = pl.lit(frame["file"].max(), pl.Int32) + 1
    rows = market.with_columns(forecaster=pl.lit(MARKET), probability=pl.col("market"), file=last, place=pl.lit(-1, pl.Int32))
    return pl.concat([frame, rows.select(frame.columns)]), []
