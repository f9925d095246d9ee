"""Separation of an answer's text into reasoning and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

#: Brackets of tags, plain or escaped as in HTML.
LESS, GREATER = r"(?:<|&lt;)", r"(?:>|&gt;)"
#: Names of tags around reasoning (`seed:think`: Seed, `longcat_think`: LongCat, `mm:think`: MiniMax, `antThinking`: Anthropic), words in brackets
#: (Mistral) and in tokens (Cohere, OpenThoughts, MiniCPM, Solar).
_NAMES = (
    r"(?:(?:[a-z_]{1,20}[:_]|ant)?(?:think|thinking|thoughts?|reasoning)(?:_[a-z]{1,20})?"
    r"|reason|rationale|analysis|scratchpad|reflection|inner_monologue)"
)
_WORD = r"(?:think|thinking|thought|reasoning)"

#: Families of opening and closing markers of reasoning. A chat template may have opened the block in the prompt, so text before a closing marker
#: without an opening one is reasoning too.
FAMILIES: Final = {
    "tags": (rf"{LESS}{_NAMES}(?:\s[^<>]{{0,80}}?)?{GREATER}", rf"{LESS}/{_NAMES}\s{{0,9}}{GREATER}"),
    "details": (rf"{LESS}details\s[^<>]{{0,200}}?type=\W{{0,6}}reasoning[^<>]{{0,200}}?{GREATER}", rf"{LESS}/details{GREATER}"),
    "brackets": (rf"\[{_WORD}\]", rf"\[/{_WORD}\]"),
    "Kimi": (r"◁think▷", r"◁/think▷"),
    "tokens": (
        rf"<[|｜](?:(?:begin|start)[_▁](?:of[_▁])?)?{_WORD}(?:_start)?[|｜]>",
        rf"<[|｜](?:(?:/|end[_▁](?:of[_▁])?){_WORD}|{_WORD}_end|content)[|｜]>",
    ),
    "Apertus": (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    "Gemma": (r"<\|channel>\s{0,9}(?:thought|analysis)", r"<channel\|>"),
    "harmony": (r"<\|channel\|>\s{0,9}(?:analysis|commentary)|\Aanalysis(?=[A-Z])", r"<\|channel\|>\s{0,9}final|assistantfinal"),
    "MedGemma": (r"<unused94>(?:thought)?", r"<unused95>"),
    "Pangu": (r"\[unused16\]", r"\[unused17\]"),
    "Granite": (r"\AHere(?: is|'s) my thought process:?", r"Here(?: is|'s) my response:?"),
    "Apriel": (r"\AHere are my reasoning steps:?", r"\[BEGIN FINAL RESPONSE\]"),
}
_MARK = re.compile(
    "|".join(f"(?P<open{place}>{opens})|(?P<close{place}>{closes})" for place, (opens, closes) in enumerate(FAMILIES.values())),
    re.IGNORECASE,
)
#: First characters of markers, without and with those in words. The words of `_FIRST` count only at the start of a text.
_SIGNS, _SIGNS_AND_WORDS = re.compile(r"[<\[◁]|&lt;"), re.compile(r"[<\[◁HhAa]|&lt;")
_FIRST = ("Here", "analysis")
#: Closing marker that is common HTML, and therefore ends reasoning only after its opening one.
_PAIRED = f"close{list(FAMILIES).index('details')}"
#: Tokens of chat templates that some servers leave around answers.
_TOKEN = re.compile(r"<\|[A-Za-z_]{1,30}\|>|<\|?turn\|?>(?:model\b)?|</s>|<end_of_turn>|\[END FINAL RESPONSE\]|</?response>", re.IGNORECASE)


class Sections(NamedTuple):
    """Parts of a model's answer: reasoning and the text outside.

    outside: text outside the reasoning. reasoning: joined blocks of reasoning, None without any. unclosed: text after an opening marker that
    nothing closes, which is reasoning unless it ends with a complete answer; None without such a marker.
    """

    outside: str
    reasoning: str | None
    unclosed: str | None = None


def is_tagged(text: str, start: int = 0) -> bool:
    """Return True if the text contains a marker that begins or ends reasoning, at or after `start`."""
    if not _has_words(text) and all(text.find(sign, start) < 0 for sign in ("<", "[", "◁", "&lt;")):
        return False
    return next(_marks(text, start), None) is not None


def _has_words(text: str) -> bool:
    return "assistantfinal" in text or "my response" in text or text.startswith(_FIRST)


def _marks(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    for sign in (_SIGNS_AND_WORDS if _has_words(text) else _SIGNS).finditer(text, start):
        if (mark := _MARK.match(text, sign.start())) is not None:
            yield mark


def split(text: str) -> Sections:
    """Split an answer at its markers of reasoning, in one pass. A block ends at a closing marker of the same family; other markers inside
    are part of the block.
    """
    text = text.lstrip()
    if not is_tagged(text):
        return Sections(_TOKEN.sub("\n", text) if "<" in text or "[" in text else text, None)
    outside: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    start, family = 0, ""
    for mark in _marks(text):
        kind = mark.lastgroup or ""
        if kind.startswith("close"):
            if family not in ("", kind[5:]) or (not family and kind == _PAIRED):
                continue
            if not family:
                outside, blocks, start = [], [], 0
            blocks.append((start, mark.start()))
            start, family = mark.end(), ""
        elif not family:
            outside.append((start, mark.start()))
            start, family = mark.end(), kind[4:]
    if not family:
        outside.append((start, len(text)))
    rest = _TOKEN.sub("\n", "\n".join(text[a:b] for a, b in outside))
    reasoning = "\n\n".join(block for a, b in blocks if (block := text[a:b].strip()))
    return Sections(rest, reasoning or None, _TOKEN.sub("\n", text[start:]) if family else None)
