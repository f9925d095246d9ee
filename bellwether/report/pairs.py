"""The report's section on pairs of forecasters: how much they differ, and which groups follow from that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bellwether.formatting import interval, number
from bellwether.report.inputs import Inputs
from bellwether.report.markdown import p_value, table, text
from bellwether.report.results import groups

#: Pairs that are shown one by one; of more, those with the best and those of neighbours in rank.
MOST_PAIRS = 15

_TURNED = {"difference": "difference", "t": "t", "lower": "upper", "upper": "lower"}


def pairs(inputs: Inputs) -> list[str]:
    """The pairs that matter with their tests, the better-ranked first, and the groups that follow from all of them."""
    lines = ["### Paired tests", ""]
    if inputs.comparisons.is_empty():
        return [*lines, "No pair was compared.", ""]
    every = ranked_pairs(inputs)
    tested = [row for row in every if row["reason"] is None]
    shown = tested if len(tested) <= MOST_PAIRS else telling(tested, inputs.forecasters)
    whole = "" if len(shown) == len(tested) else " The best with each other, and neighbours in rank:"
    return [
        *lines,
        "Difference of mean Brier scores on the questions that both answered and neither could have known; negative favours the first."
        " Errors are cluster-robust; an interval excludes 0 exactly where p is below 0.05; Holm corrects p over all pairs tested.",
        "",
        f"{len(shown)} of {len(every)} pairs are shown; all are in the summary (JSON).{whole}",
        "",
        *table(
            ("Forecaster", "Other", "n", "Clusters", "Difference", "95 %", "Std. error", "df", "p", "p (Holm)"),
            [_cells(row) for row in shown],
            texts=2,
        ),
        *_untested(every),
        *_groups(inputs),
    ]


def ranked_pairs(inputs: Inputs) -> list[dict[str, Any]]:
    """Every pair, turned so that the forecaster stands before the other on the leaderboard, in the order of the leaderboard."""
    place = {name: index for index, name in enumerate(inputs.forecasters)}
    rows = [_turned(row, place) for row in inputs.comparisons.iter_rows(named=True)]
    return sorted(rows, key=lambda row: (place[row["forecaster"]], place[row["other"]]))


def telling(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The pairs with the first of `names`, and those of names that follow each other."""
    place = {name: index for index, name in enumerate(names)}
    return [row for row in rows if place[row["forecaster"]] == 0 or place[row["other"]] == place[row["forecaster"]] + 1]


def _turned(row: dict[str, Any], place: Mapping[str, int]) -> dict[str, Any]:
    if place[row["forecaster"]] < place[row["other"]]:
        return row
    values = {name: None if row[source] is None else -row[source] for name, source in _TURNED.items()}
    return row | {"forecaster": row["other"], "other": row["forecaster"]} | values


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        text(row["forecaster"]),
        text(row["other"]),
        number(row["n"]),
        number(row["n_clusters"]),
        number(row["difference"]),
        interval(row["lower"], row["upper"], 4),
        number(row["standard_error"]),
        number(row["df"], 0),
        p_value(row["p"]),
        p_value(row["p_holm"]),
    )


def _untested(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    reasons = Counter(row["reason"] for row in rows if row["reason"] is not None)
    lines = [f"- {number(n)} without a test: {text(reason)}." for reason, n in sorted(reasons.items())]
    return [*lines, ""] if lines else []


def _groups(inputs: Inputs) -> list[str]:
    named = [f"- **{letter}**: {', '.join(text(name) for name in members)}" for letter, members in groups(inputs).items()]
    return ["Significance groups; forecasters that share a letter do not differ significantly:", "", *named, ""] if named else []
