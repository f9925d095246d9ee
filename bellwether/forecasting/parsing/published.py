"""Another reading of KalshiBench's published answers, whose prompt and parser contradict each other."""

from __future__ import annotations

from bellwether.forecasting.parsing.result import Answer


def answer_consistent(answer: Answer | None, number: float | None) -> float | None:
    """P(yes) that agrees with the answer, from the number stated with it (0 to 100); None without an answer.

    The published prompt asks for the confidence that the answer is "yes", the published parser takes the number as confidence in the given
    answer. Read so that it agrees with the answer, "no" with at most 50 states P(yes), "no" with more states 1 - P(yes), and "yes" states
    P(yes). A missing number is the published 0.5. Of new forecasts nothing is read in this way: their prompt has one meaning.
    """
    if answer is None:
        return None
    stated = 0.5 if number is None else max(0.0, min(1.0, number / 100.0))
    return 1.0 - stated if answer == "no" and number is not None and number > 50 else stated
