"""The published parsing rules including their defects, and published answers that the reading agrees with."""

from __future__ import annotations

import pytest

from bellwether.forecasting.parsing import compat, published


@pytest.mark.parametrize(
    ("text", "answer", "p_yes", "path"),
    [
        ("<answer>yes</answer><confidence>70</confidence>", "yes", 0.7, "compat_tag"),
        ("<answer>no</answer><confidence>70</confidence>", "no", 1.0 - 0.7, "compat_tag"),
        ("<Answer> NO </Answer> <CONFIDENCE>62.5</CONFIDENCE>", "no", 0.375, "compat_tag"),
        # The first match counts, even inside the reasoning.
        ("<think><answer>yes</answer></think><answer>no</answer><confidence>70</confidence>", "yes", 0.7, "compat_tag"),
        # Other number formats are not recognised and count as 0.5.
        ("<answer>no</answer><confidence>70%</confidence>", "no", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>-5</confidence>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>about 70</confidence>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>.7</confidence>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>250</confidence>", "yes", 1.0, "compat_tag"),
        ("<answer>no</answer><confidence>250</confidence>", "no", 0.0, "compat_tag"),
        # A guessed "no" is not converted.
        ("I say the answer is NO. <confidence>80</confidence>", "no", 0.8, "compat_phrase"),
        ("the answer is no, or the answer is yes?", "yes", 0.5, "compat_phrase"),
        ("it will not: nothing is known <confidence>95</confidence>", "no", 0.95, "compat_count"),
        ("perhaps yes, yesterday", "yes", 0.5, "compat_count"),
        ("yes and no", "no", 0.5, "compat_count"),
        ("a yes, a no", None, 0.5, "compat_none"),
        ("", None, 0.5, "compat_none"),
        ("<answer>maybe</answer><confidence>70</confidence>", None, 0.7, "compat_none"),
    ],
)
def test_the_published_rules(text: str, answer: str | None, p_yes: float, path: str) -> None:
    reading = compat.read(text)
    assert (reading.answer, reading.p_yes, reading.path) == (answer, p_yes, path)


def test_floats_are_those_of_the_published_arithmetic() -> None:
    assert compat.read("<answer>no</answer><confidence>42</confidence>").p_yes == 0.5800000000000001
    assert compat.read("<answer>no</answer><confidence>90</confidence>").p_yes == 0.09999999999999998


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        ("<think>\n a\nb </think><think>c</think>", "a\nb"),
        ("<Think>a</Think>", ""),
        ("<think>a", ""),
        ("a</think>", ""),
        ("</think><think>b</think>", "b"),
    ],
)
def test_the_first_thought_is_kept(text: str, reasoning: str) -> None:
    assert compat.read(text).reasoning == reasoning


@pytest.mark.parametrize(
    ("answer", "number", "p_yes"),
    [
        ("yes", 70.0, 0.7),
        ("yes", 20.0, 0.2),
        ("no", 30.0, 0.3),
        ("no", 50.0, 0.5),
        ("no", 70.0, 1.0 - 0.7),
        ("no", 0.2, 0.002),
        ("no", None, 0.5),
        (None, 70.0, None),
        (None, None, None),
    ],
)
def test_the_number_is_read_so_that_it_agrees_with_the_answer(answer: str, number: float, p_yes: float) -> None:
    assert published.answer_consistent(answer, number) == p_yes  # type: ignore[arg-type]
