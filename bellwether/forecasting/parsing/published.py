"""P(yes) of KalshiBench's published answers, in the sense that agrees with the answer; the published prompt and parser contradict each other."""

from __future__ import annotations

from bellwether.forecasting.parsing.result import Answer


def answer_consistent(answer: Answer | None, number: float | None) -> float | None:
    """Return the P(yes) that agrees with an answer of yes or no and the stated number (0 to 100). None without an answer; 0.5 without a
    number.

    The published prompt asks for the confidence that the answer is "yes", the published parser takes the number as confidence in the given
    answer. The consistent interpretation: the number of "yes" is P(yes); that of "no" is P(yes) up to 50, and 1 - P(yes) above. A missing
    number is the published 0.5. New forecasts are never interpreted this way: their prompt is unambiguous.
    """
    if answer is None:
        return None
    stated = 0.5 if number is None else max(0.0, min(1.0, number / 100.0))
    return 1.0 - stated if answer == "no" and number is not None and number > 50 else stated
