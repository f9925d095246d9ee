"""Calibration figures: cached for equal rows in any order, and redrawn for other rows."""

from __future__ import annotations

import polars as pl
import pytest

from bellwether.figures import canvas, reliability
from bellwether.report import figures
from bellwether.report.figures import confidence_picture, reliability_picture
from tests.report import frames


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the drawn figures."""
    found: list[str] = []
    monkeypatch.setattr(figures, "_cache", type(figures._cache)())
    for name in ("reliability_diagram", "confidence_histograms"):
        monkeypatch.setattr(reliability, name, lambda *_, name=name, **__: found.append(name) or f"{name} {len(found)}")
    monkeypatch.setattr(canvas, "png", str.encode)
    return found


def test_the_same_rows_in_another_order_are_not_drawn_again(drawn: list[str]) -> None:
    rows = frames.tiny()
    first = reliability_picture(rows.reliability, rows.forecasts, rows.questions, "x")
    assert reliability_picture(rows.reliability.reverse(), rows.forecasts.reverse(), rows.questions.reverse(), "x") == first
    assert confidence_picture(rows.forecasts, rows.questions, "x") == confidence_picture(rows.forecasts.reverse(), rows.questions, "x")
    assert drawn == ["reliability_diagram", "confidence_histograms"]


def test_other_rows_and_titles_are_drawn(drawn: list[str]) -> None:
    rows = frames.tiny()
    other = rows.forecasts.with_columns(known_at=pl.col("known_at").dt.offset_by("1d"))
    pictures = {
        confidence_picture(forecasts, rows.questions, title)
        for forecasts, title in ((rows.forecasts, "x"), (other, "x"), (rows.forecasts, "y"), (rows.forecasts.head(1), "x"))
    }
    assert len(pictures) == len(drawn) == 4
