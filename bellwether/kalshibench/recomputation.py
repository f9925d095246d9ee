"""Recomputation of a model's published numbers from its predictions. Each number turns out equal, different, or not determined."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from bellwether.calibration import compat
from bellwether.calibration.compat import Lacking, Number
from bellwether.kalshibench.results import ModelResult

NO_LABELS = "needs labels: the result files hold no ground truth; give --labels"
OVER_ALL = "Bellwether's own totals count every answer, also those to questions that it does not score"
UNDEFINED = "the published rules do not define it"
NO_CATEGORIES = "needs the column category in the labels"
NO_RESULT = "needs the model's predictions; the folder has no readable result file of it"
UNANSWERED = "needs an answer of yes or no; no prediction has one"

#: Bellwether's own numbers may be summed in another order.
_ROUNDING = 1e-12

_OVER_ALL = ("avg_latency_ms", "total_")
_COUNT = re.compile(r"category\[(.*)\]\.count")
_OF_LABELS = {"ground_truth": "outcomes", "category": "categories"}

#: Columns that are summed to totals.
_USAGE = ("latency_ms", "input_tokens", "output_tokens")
_TOTALS = {
    "avg_latency_ms": "latency_ms",
    "total_input_tokens": "input_tokens and output_tokens",
    "total_output_tokens": "input_tokens and output_tokens",
    "total_tokens": "input_tokens and output_tokens",
    "total_cost_usd": "input_tokens and output_tokens, and prices in model_config",
}


class RecomputationStatus(StrEnum):
    """Result of comparing a published number with its recomputation.

    EQUAL: the same number, to the last bit (to 1e-12 for files that Bellwether wrote). DIFFERS: another number. TIES: an ACE that differs with
    this machine's sort, but may be equal with another order of the tied forecasts. NOT_RECOMPUTED: the files and labels do not determine it.
    """

    EQUAL = "equal"
    DIFFERS = "differs"
    TIES = "ties"
    NOT_RECOMPUTED = "not recomputed"


@dataclass(frozen=True, slots=True)
class MissingReason:
    """Why a published number cannot be recomputed. needs: the missing input, such as labels. text: clause that completes a sentence."""

    needs: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Recomputation:
    """Numbers recomputed from a model's predictions by the published rules, and the reasons why others are missing.

    numbers: by published name. explain: returns the reason for a missing name; None for a bin or a category without an entry, which does not
    exist. ace_range: range of ACE over the orders of tied forecasts, None if the published order is known or ACE is not recomputed. tolerance: maximum
    difference of numbers that count as equal.
    """

    numbers: Mapping[str, Number]
    explain: Callable[[str], MissingReason | None]
    ace_range: compat.AceRange | None = None
    tolerance: float = 0.0

    @property
    def ace_varies(self) -> bool:
        """True if the published ACE depends on the order of tied forecasts, which is unknown."""
        return self.ace_range is not None and self.ace_range.varies

    def judge(self, metric: str, published: Number) -> tuple[RecomputationStatus, MissingReason | None]:
        """Compare a published number with its recomputation; return the status, and the reason if the number is not recomputed."""
        if metric not in self.numbers:
            reason = self.explain(metric)
            return (RecomputationStatus.DIFFERS if reason is None else RecomputationStatus.NOT_RECOMPUTED), reason
        ours = self.numbers[metric]
        if ours is None or published is None:
            return (RecomputationStatus.EQUAL if ours is published else RecomputationStatus.DIFFERS), None
        if abs(ours - published) <= self.tolerance:
            return RecomputationStatus.EQUAL, None
        if metric == "ace" and self.ace_range is not None and self.ace_range.explains(published):
            return RecomputationStatus.TIES, None
        return RecomputationStatus.DIFFERS, None


def recompute(model: ModelResult, entries: pl.DataFrame, *, unlabelled: str | None, categorised: bool) -> Recomputation:
    """Recompute a model's published numbers. entries: predictions with the columns scored (outcome that scoring used), category and
    ace_bin, null if unknown.

    unlabelled: reason why no entry has labels, None if some have. categorised: True if the labels have categories.
    """
    if not entries["predicted_answer"].count():
        return Recomputation({}, lambda _: MissingReason("answers", UNANSWERED))
    frame = entries.with_columns(ground_truth="scored").drop(_incomplete(entries))
    published = compat.recompute(frame, prices=model.prices, category_counts=_category_counts(model))

    def explain(name: str) -> MissingReason | None:
        return _reason(name, published, unlabelled=unlabelled, categorised=categorised)

    return Recomputation(published.flat(), explain, published.ace_range)


def recompute_strict(plain: Recomputation, numbers: Mapping[str, Number]) -> Recomputation:
    """Build the recomputation for a result file that Bellwether wrote: `numbers`, by Bellwether's rules, replace those in `plain`, by
    KalshiBench's.
    """

    def explain(name: str) -> MissingReason | None:
        return MissingReason("every answer", OVER_ALL) if name.startswith(_OVER_ALL) else plain.explain(name)

    replaced = {name: value for name, value in {**plain.numbers, **numbers}.items() if not name.startswith(_OVER_ALL)}
    return Recomputation(replaced, explain, tolerance=_ROUNDING)


#: Recomputation of a model that only a summary contains.
ABSENT = Recomputation({}, lambda _: MissingReason("result file", NO_RESULT))


def _reason(name: str, published: compat.Published, *, unlabelled: str | None, categorised: bool) -> MissingReason | None:
    """Return why the published number `name` is not recomputed; None if the number should not exist, like that of an empty bin or category."""
    if name in _TOTALS:
        return MissingReason(_TOTALS[name], f"needs {_TOTALS[name]} of every prediction")
    of_category, of_bin = name.startswith("category["), name.startswith("reliability[")
    if not (of_category or of_bin or name in compat.SCALARS):
        return MissingReason("definition", UNDEFINED)
    lacking = published.lacking.get(name) or (published.uncategorised if of_category else None)
    if unlabelled is not None and lacking is not None:
        return MissingReason("labels", unlabelled)
    if of_category and not categorised:
        return MissingReason("column category", NO_CATEGORIES)
    return None if lacking is None else _lacking(lacking)


def _lacking(lacking: Lacking) -> MissingReason:
    entries, first = ("one entry", "") if lacking.entries == 1 else (f"{lacking.entries} entries", "first ")
    text = f"needs the {lacking.column.replace('_', ' ')} of {entries} without label, {first}{lacking.question!r}"
    return MissingReason(_OF_LABELS[lacking.column], text)


def _incomplete(entries: pl.DataFrame) -> list[str]:
    """Return the optional columns that are unusable because an entry has no value. For ace_bin only answered entries count."""
    answered = entries.filter(pl.col("predicted_answer").is_not_null())
    return [name for name in _USAGE if entries[name].null_count()] + (["ace_bin"] if answered["ace_bin"].null_count() else [])


def _category_counts(model: ModelResult) -> dict[str, int]:
    matches = ((_COUNT.fullmatch(name), value) for name, value in model.published.items())
    return {match[1]: int(value) for match, value in matches if match is not None and value is not None}
