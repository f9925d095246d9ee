"""Which partitions are out of date."""

from __future__ import annotations

from orchestration.freshness import spans, stale


def test_a_partition_that_an_output_lacks_is_stale() -> None:
    assert stale(["a", "b"], [{"a": 1, "b": 2}, {"a": 3}], []) == ["b"]


def test_a_partition_with_a_newer_source_is_stale() -> None:
    assert stale(["a", "b"], [{"a": 10, "b": 10}], [{"a": 5, "b": 11}]) == ["b"]


def test_the_oldest_output_decides() -> None:
    assert stale(["a"], [{"a": 10}, {"a": 4}], [{"a": 5}]) == ["a"]


def test_a_source_that_was_never_made_makes_nothing_stale() -> None:
    assert stale(["a"], [{"a": 10}], [{}]) == []


def test_neighbouring_days_are_one_span_of_bounded_length() -> None:
    days = ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-05", "2026-03-04", "2026-03-10"]
    assert spans(days) == [("2026-02-27", "2026-03-01"), ("2026-03-04", "2026-03-05"), ("2026-03-10", "2026-03-10")]
    assert spans(days, most=2) == [
        ("2026-02-27", "2026-02-28"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-04", "2026-03-05"),
        ("2026-03-10", "2026-03-10"),
    ]
