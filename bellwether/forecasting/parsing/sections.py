"""A response taken apart: the reasoning, and what stands outside it."""

from __future__ import annotations

import re
from typing import NamedTuple

_TAG = re.compile(r"<(/?)(?:think|thinking|thought|reasoning|analysis|scratchpad)\s{0,9}>", re.IGNORECASE | re.ASCII)


class Sections(NamedTuple):
    """outside: all text outside the reasoning. reasoning: its blocks joined; None without any. last: its last block, where nothing follows it."""

    outside: str
    reasoning: str | None
    last: str | None


def is_tagged(text: str, start: int = 0) -> bool:
    """Whether a tag of reasoning stands in a text from `start` on."""
    return _TAG.search(text, start) is not None


def split(text: str) -> Sections:
    """Split at the tags of reasoning, in one pass.

    All that stands before a closing tag that was never opened is reasoning: chat templates often open it for the model. A block that is
    never closed runs to the end. Inside a block an opening tag is only talked about.
    """
    outside: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    start, is_open = 0, False
    for tag in _TAG.finditer(text):
        if tag[1]:
            if not is_open:
                outside, blocks, start = [], [], 0
            blocks.append((start, tag.start()))
            start, is_open = tag.end(), False
        elif not is_open:
            outside.append((start, tag.start()))
            start, is_open = tag.end(), True
    (blocks if is_open else outside).append((start, len(text)))
    if not blocks:
        return Sections(text, None, None)
    last = blocks[-1]
    follows = not is_open and bool(text[start:].strip())
    reasoning = "\n\n".join(block for a, b in blocks if (block := text[a:b].strip()))
    return Sections("\n".join(text[a:b] for a, b in outside), reasoning or None, None if follows else text[last[0] : last[1]])
