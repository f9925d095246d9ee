"""Where a text states an answer, a confidence or P(yes): in tags, as members of JSON, on labelled lines. Every search is linear in the text."""

from __future__ import annotations

import json
import re
from typing import Literal, NamedTuple

Kind = Literal["answer", "confidence", "p_yes"]

#: What a name states; every other name states P(yes).
_KINDS: dict[str, Kind] = {"answer": "answer", "prediction": "answer", "confidence": "confidence", "probability": "p_yes", "p_yes": "p_yes"}
_FLAGS = re.IGNORECASE | re.ASCII
_TAG = re.compile(r"<(/?)(answer|confidence|probability|p_yes)\s{0,9}>", _FLAGS)
#: A member is looked for from its colon backwards: there are fewer colons in prose than quotes.
_COLON = re.compile(r":(?<=[\"' ]:)")
_NAME = re.compile(
    r"([\"'])(answer|prediction|confidence|p_yes|probability_of_yes|probability_yes|yes_probability|probability)\1 ?\Z", _FLAGS
)
_LONGEST_NAME = 24
_VALUE = re.compile(r"\s{0,9}(\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^,}\]\n\"']{0,200})", _FLAGS)
_LABEL = re.compile(
    r"^[ \t>*#_\-•]{0,9}(?:(?:final|my) ){0,2}(?P<name>answer|prediction|confidence|p\(yes\)|p_yes|probability(?: of [\"'*]{0,2}yes[\"'*]{0,2}| \(yes\))?)"
    r"(?: \((?:0 ?[-–] ?100 ?%?|in %|%)\))?[*_]{0,3}[ \t]{0,3}[:=][ \t]{0,3}(?P<value>[^\n]{0,200})",
    _FLAGS | re.MULTILINE,
)
_THOUGHTS = re.compile(r"\"(?:reasoning|rationale|explanation)\" ?:\s{0,9}(?=\")", _FLAGS)
_JSON = json.JSONDecoder(strict=False)
_AT_END = re.compile(r"<answer>([^<]{0,80})</answer>\s{0,99}<confidence>([^<]{0,80})</confidence>[\s`]{0,99}\Z", _FLAGS)
#: Labelled lines, and tags that end the reasoning, count in so many last characters.
_END = 400
_LONGEST = 201


class Field(NamedTuple):
    """A value as it stands in the text, whose long ones are cut: nothing that long is an answer or a number."""

    kind: Kind
    raw: str


class Found(NamedTuple):
    """What a text states, the least strict form among it, and where the first statement begins (the text's length without any)."""

    fields: tuple[Field, ...]
    form: str
    start: int


def find(text: str) -> Found:
    """All statements in the strictest forms that together give an answer with its number, or P(yes)."""
    found = _tags(text)
    for search in (_members, _labels):
        if _is_complete(found.fields):
            break
        more = search(text)
        if more.fields:
            found = Found(found.fields + more.fields, more.form, min(found.start, more.start))
    return found


def at_end(block: str) -> Found:
    """The tags with which a text ends, if it ends with an answer and its confidence."""
    match = _AT_END.search(block[-_END:])
    fields = (Field("answer", match[1]), Field("confidence", match[2])) if match else ()
    return Found(fields, "tags_in_reasoning" if match else "none", 0)


def thoughts(text: str) -> str | None:
    """The reasoning that a JSON object carries as a member."""
    key = _THOUGHTS.search(text)
    try:
        return (str(_JSON.raw_decode(text, key.end())[0]).strip() or None) if key else None
    except ValueError:
        return None


def _is_complete(fields: tuple[Field, ...]) -> bool:
    kinds = {kind for kind, _ in fields}
    return len(kinds) > 1 or "p_yes" in kinds


def _tags(text: str) -> Found:
    fields: list[Field] = []
    form, first = "tags", len(text)
    name, start = "", 0
    for tag in _TAG.finditer(text):
        closes, this = tag.groups()
        at, end = tag.span()
        this = this.lower()
        if name:
            is_whole = closes and this == name
            form = form if is_whole else "tags_unclosed"
            fields.append(Field(_KINDS[name], text[start : min(at, start + _LONGEST)] if is_whole else _line(text, start, at)))
        elif not closes and not fields:
            first = at
        name, start = ("" if closes else this), end
    if name:
        form = "tags_unclosed"
        fields.append(Field(_KINDS[name], _line(text, start, len(text))))
    return Found(tuple(fields), form if fields else "none", first)


def _line(text: str, start: int, end: int) -> str:
    """The value of a tag that is never closed: the rest of its line, or the line after it."""
    return text[start : min(end, start + _LONGEST)].lstrip().partition("\n")[0].partition("<")[0]


def _members(text: str) -> Found:
    fields: list[Field] = []
    first, end = len(text), 0
    for colon in _COLON.finditer(text):
        at = colon.start()
        name = _NAME.search(text, max(end, at - _LONGEST_NAME), at)
        value = _VALUE.match(text, at + 1) if name else None
        if name and value:
            first, end = min(first, name.start()), value.end()
            fields.append(Field(_KINDS.get(name[2].lower(), "p_yes"), value[1]))
    return Found(tuple(fields), "json", first)


def _labels(text: str) -> Found:
    start = max(0, len(text) - _END)
    if text.find(":", start) < 0 and text.find("=", start) < 0:
        return Found((), "labels", len(text))
    found = [(Field(_KINDS.get(match["name"].lower(), "p_yes"), match["value"]), match.start()) for match in _LABEL.finditer(text, start)]
    return Found(tuple(field for field, _ in found), "labels", found[0][1] if found else len(text))
