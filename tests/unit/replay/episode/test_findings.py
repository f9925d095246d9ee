"""Findings about episodes that can be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.replay.episode import Finding, validate
from tests.unit.replay.episode.folders import BOOK, TRADES, Native, change_value


def findings(native: Native, folder: Path, severity: str) -> list[Finding]:
    report = validate(native.write(folder))
    assert report.is_valid, report.text()
    return [finding for finding in report.findings if finding.severity == severity]


def warnings(native: Native, folder: Path) -> dict[str, str]:
    return {finding.check: finding.message for finding in findings(native, folder, "warning")}


def test_a_good_episode_has_no_warning(tmp_path: Path) -> None:
    report = validate(Native().write(tmp_path))
    assert report.warnings == report.errors == []
    assert report.counts == {"markets": 2, "book rows": 5, "level changes": 7, "gaps": 0, "trades": 2}
    assert report.digest is not None
    assert report.text().startswith(f"{tmp_path.name}: valid; 2 markets, 5 book rows")
    assert "2 of 2 trades (100.0%) hit a displayed level" in report.text()
    assert "longest pause 54.0 s" in report.text()


def test_a_trade_that_hits_nothing_is_warned_of(tmp_path: Path) -> None:
    found = warnings(Native(trades=change_value(TRADES, 1, 4, 470)), tmp_path)["trades"]
    assert "1 of 2 trades (50.0%)" in found and "row 1: KXTEST-A, NO bid at 53 cents" in found


def test_a_level_that_the_trade_emptied_counts_as_hit(tmp_path: Path) -> None:
    early = [(5, "t1", "KXTEST-A", "no", 450, 3_000), (7.9, "t2", "KXTEST-A", "yes", 480, 5_000)]
    assert warnings(Native(trades=early), tmp_path / "within") == {}
    late = [early[0], (8.1, "t2", "KXTEST-A", "yes", 480, 5_000)]
    assert "1 of 2 trades" in warnings(Native(trades=late), tmp_path / "beyond")["trades"]


def test_prices_of_the_other_side_are_warned_of(tmp_path: Path) -> None:
    found = findings(Native(trades=change_value(TRADES, 0, 4, 550)), tmp_path, "warning")
    assert any("1 of 1 trades of NO takers fit at the other side's price, 0 as given" in finding.message for finding in found)


def test_a_trade_off_the_grid_is_warned_of(tmp_path: Path) -> None:
    found = findings(Native(trades=change_value(TRADES, 1, 4, 475)), tmp_path, "warning")
    assert any(
        "1 trades are off their market's price grid, the first is row 1: KXTEST-A at 47.5 cents" in finding.message for finding in found
    )


def test_an_unsettled_market_is_warned_of(tmp_path: Path) -> None:
    native = Native()
    del native.settlement["KXTEST-B"]
    assert warnings(native, tmp_path)["settlement"] == "1 of 2 markets never settle: KXTEST-B"


@pytest.mark.parametrize(("exclusive", "severity"), [(True, "warning"), (None, "info")])
def test_nobody_winning_is_a_warning_where_somebody_must(tmp_path: Path, exclusive: bool | None, severity: str) -> None:
    native = Native()
    native.metadata["mutually_exclusive"] = exclusive
    native.settlement["KXTEST-A"] |= {"result": "NO", "value": "0"}
    assert [finding.check for finding in findings(native, tmp_path, severity)].count("winners") == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"unapplied": 25471}, "25471 frames of books were not applied, and source.uncovered is missing"),
        ({"unapplied": 25471, "uncovered": 3}, "3 received frames of books were neither applied nor in a gap"),
        ({"unapplied": 25471, "uncovered": 0}, None),
        ({"unapplied": 0}, None),
        ({"unapplied": "some"}, None),
    ],
)
def test_frames_that_were_received_and_not_applied_lie_in_gaps(tmp_path: Path, source: dict[str, object], said: str | None) -> None:
    native = Native()
    native.metadata["source"] = source
    report = validate(native.write(tmp_path))
    assert report.is_valid == (said is None)
    assert said is None or said in report.text()


def test_lost_trades_are_warned_of(tmp_path: Path) -> None:
    native = Native()
    native.metadata["source"] = {"trades_lost": 7}
    assert warnings(native, tmp_path)["trades"].startswith("7 messages of trade subscriptions were lost")


def test_a_book_that_is_locked_in_a_gap_is_fine(tmp_path: Path) -> None:
    rows = [*BOOK[:6], (5, 3, "KXTEST-A", "invalid", None, None, None), (6, 4, "KXTEST-A", "level", "yes", 480, 100), BOOK[8]]
    native = Native(book=rows)
    native.metadata["gaps"] = [{"ticker": "KXTEST-A", "from": "2026-01-20T00:00:05Z", "to": None, "cause": "lost"}]
    assert "crossing" not in warnings(native, tmp_path)


def test_a_book_that_crosses_within_an_instant_is_fine(tmp_path: Path) -> None:
    rows = [*BOOK[:6], (5, 3, "KXTEST-A", "level", "yes", 500, 100), (5, 4, "KXTEST-A", "level", "no", 520, 0), BOOK[8]]
    assert "crossing" not in warnings(Native(book=rows, trades=TRADES[:1]), tmp_path)


def test_gaps_are_stated_and_marked(tmp_path: Path) -> None:
    unmarked = Native()
    unmarked.metadata["gaps"] = [{"ticker": "KXTEST-B", "from": "2026-01-20T00:00:05Z", "to": "2026-01-20T00:00:07Z", "cause": "lost"}]
    assert "no row of kind invalid marks them: KXTEST-B" in warnings(unmarked, tmp_path / "unmarked")["gaps"]
    unstated = Native(book=[*BOOK, (61, 6, "KXTEST-B", "invalid", None, None, None)])
    assert "no gap is stated in metadata.json: KXTEST-B" in warnings(unstated, tmp_path / "unstated")["gaps"]


def test_a_market_with_a_gap_and_no_book_is_an_error(tmp_path: Path) -> None:
    native = Native(book=[*(row for row in BOOK if row[2] == "KXTEST-A"), (61, 6, "KXTEST-B", "invalid", None, None, None)])
    native.metadata["gaps"] = [{"ticker": "KXTEST-B", "from": "2026-01-20T00:01:01Z", "to": None, "cause": "frame 0 has yes 0.4"}]
    report = validate(native.write(tmp_path))
    assert not report.is_valid
    assert "KXTEST-B has no book, only a gap: frame 0 has yes 0.4" in report.text()


def test_rows_outside_the_window_and_markets_without_rows_are_warned_of(tmp_path: Path) -> None:
    late = Native(book=[*BOOK, (601, 6, "KXTEST-A", "level", "yes", 400, 1)])
    assert "1 book rows lie outside start_ts and end_ts" in warnings(late, tmp_path / "late")["coverage"]
    alone = Native(book=[row for row in BOOK if row[2] == "KXTEST-A"])
    assert warnings(alone, tmp_path / "alone")["coverage"] == "1 of 2 markets have no book row: KXTEST-B"
