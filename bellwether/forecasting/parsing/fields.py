"""Search for statements of an answer, a confidence or P(yes) in tags, JSON members and labelled lines, in linear time."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from bellwether.forecasting.parsing.sections import GREATER, LESS

#: `p_yes`: P(yes) under the name that the prompt requests. `probability`: P(yes) under any other name.
Kind = Literal["answer", "confidence", "p_yes", "probability"]

#: Kind of statement by name; all other names state P(yes).
_KINDS: dict[str, Kind] = {"answer": "answer", "prediction": "answer", "confidence": "confidence", "p_yes": "p_yes"}
_FLAGS = re.IGNORECASE | re.ASCII
_TAGS = ("answer", "confidence", "probability", "p_yes")
_TAG = re.compile(rf"{LESS}(/?)({'|'.join(_TAGS)})(?:\s[^<>]{{0,80}}?)?{GREATER}", _FLAGS)
#: Members are searched backwards from the colon, because prose has fewer colons than quotes.
_COLON = re.compile(r":(?<=[\"' ]:)")
_NAMES = "answer|prediction|confidence|p_yes|probability_of_yes|probability_yes|yes_probability|probability"
_NAME = re.compile(rf"([\"'])({_NAMES})\1 ?\Z", _FLAGS)
_LONGEST_NAME = 24
_VALUE = re.compile(r"\s{0,9}(\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^,}\]\n\"']{0,200})", _FLAGS)
#: End of a member without quotes; the comma before the next line may be missing.
_ENDS = re.compile(r"\s{0,99}(?:[}\]]|,)|[ \t]{0,99}\n\s{0,99}(?=[\"'])")
#: Texts of other members; statements inside them are drafts.
_OTHERS = re.compile(
    rf"\"(?!(?:{_NAMES})\")[^\"\\\n:{{}}]{{1,40}}\"\s{{0,9}}:\s{{0,9}}\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)"
    rf"|'(?!(?:{_NAMES})')[^'\\\n:{{}}]{{1,40}}'\s{{0,9}}:\s{{0,9}}'(?:[^'\\]|\\.|'(?!\s{{0,9}}[,}}\]]))*+(?:'|\\?\Z)",
    _FLAGS | re.DOTALL,
)
_COMMENT = re.compile(r"(?<![:/\w])//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)|(?<=[\s,{])#[^\n]*")
#: Start of an outermost object or list of objects.
_OUTERMOST = re.compile(r"\{(?=\s{0,99}(?:[\"'{}]|\w{1,40}\s{0,9}:|\Z))|\[(?=\s{0,99}\{)")
#: Brackets, and texts in quotes, in which brackets do not count.
_BRACKET = re.compile(r"[{}\[\]]|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|(?<!\w)'(?:[^'\\]|\\.|'(?!\s{0,9}[,:}\]]))*+(?:'|\\?\Z)", re.DOTALL)
_LABEL = re.compile(
    r"^[ \t>*#_\-•]{0,9}(?:(?:final|my) ){0,2}(?P<name>answer|prediction|confidence|p\(yes\)|p_yes|probability(?: of [\"'*]{0,2}yes[\"'*]{0,2}| \(yes\))?)"
    r"(?: \((?:0 ?[-–] ?100 ?%?|in %|%)\))?[*_]{0,3}[ \t]{0,3}[:=][ \t]{0,3}(?P<value>[^\n]{0,200})",
    _FLAGS | re.MULTILINE,
)
_THOUGHTS = re.compile(r"\"(?:reasoning|rationale|explanation)\" ?:\s{0,9}(?=\")", _FLAGS)
_JSON = json.JSONDecoder(strict=False)
#: Allowed after the last statement of a truncated answer: closing characters and tags.
_CLOSERS = re.compile(r"[\s`*_.!\"'}\])]{0,99}(?:<[^<>]{1,30}>\s{0,9}){0,9}\Z")
#: Number of final characters in which labelled lines count as the answer.
_END = 400
_LONGEST = 201
#: Full-width characters and their ASCII equivalents, and zero-width marks.
_PLAIN: dict[int, int | str | None] = {
    **{0xFF01 + place: 0x21 + place for place in range(94)},
    **dict.fromkeys((0x3000, 0x202F, 0x2007, 0x2009), " "),
    **dict.fromkeys((0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), *range(0x2066, 0x206A), 0xFEFF)),
}


class Field(NamedTuple):
    """One statement in an answer (of yes or no, a confidence, or P(yes)): its kind, and its value as text. Values longer than any valid one
    are truncated.
    """

    kind: Kind
    raw: str


class Form(NamedTuple):
    """Statements of a text in one notation: tags, labelled lines, or one JSON object. start, end: positions of the first statement's start
    and the last one's end.
    """

    name: str
    fields: tuple[Field, ...]
    start: int
    end: int

    @property
    def kinds(self) -> set[Kind]:
        """Kinds of the form's statements."""
        return {kind for kind, _ in self.fields}

    @property
    def is_complete(self) -> bool:
        """True if the form states a probability: an answer together with a confidence, or P(yes)."""
        return _is_complete(self.kinds)


class Statements(NamedTuple):
    """All statements of a text, grouped into forms (notations).

    forms: those with a statement, strictest first. drafts: complete answers on lines too far from the end. is_cut: True if the end of the answer is
    missing. start: position of the first statement; by default the text's length.
    """

    forms: tuple[Form, ...]
    drafts: tuple[Form, ...]
    is_cut: bool
    start: int


class _Span(NamedTuple):
    """Statement with its position in the text."""

    at: int
    end: int
    kind: Kind
    raw: str | None
    """None if the end of the value is missing."""


def normalize_text(text: str) -> str:
    """Replace full-width characters by ASCII ones, and remove invisible characters."""
    return text if text.isascii() else text.translate(_PLAIN)


def find_statements(text: str, *, ended: bool) -> Statements:
    """Find all statements of a text. ended: True if the model ended the text itself, so that the end of the text also ends the value of a
    labelled line.
    """
    visible = _OTHERS.sub(_blank, text) if ":" in text else text
    tags = list(_tags(visible))
    objects, is_open = _blank_nested(_COMMENT.sub(_blank, visible) if "//" in visible or "/*" in visible or "#" in visible else visible)
    members = list(_members(objects))
    labels = list(_labels(visible, [*tags, *members], ended=ended))
    early = [span for span in labels if span.at < len(visible) - _END]
    late = labels[len(early) :]
    named = [("tags", tags), *(("json", members) for members in _group_members(objects, members)), ("labels", late)]
    forms = [form for name, spans in named if (form := _form(name, spans)) is not None]
    draft = _form("labels", early)
    spans = sorted([*tags, *members, *late])
    is_cut = bool(spans) and (
        _is_unclosed(spans) or _is_unfinished(visible, spans[-1].end) or not (ended or (not is_open and _is_whole(visible, spans, forms)))
    )
    return Statements(tuple(forms), (draft,) if draft and draft.is_complete else (), is_cut, spans[0].at if spans else len(text))


def merge_strictest_forms(forms: Iterable[Form]) -> Form | None:
    """Merge the strictest forms (notations) until they state an answer with its number, or else all forms. forms: strictest first. None
    without forms.
    """
    merged: list[Form] = []
    kinds: set[Kind] = set()
    for form in forms:
        merged.append(form)
        kinds |= form.kinds
        if _is_complete(kinds):
            break
    if len(merged) < 2:
        return merged[0] if merged else None
    fields = tuple(field for form in merged for field in form.fields)
    return Form(merged[-1].name, fields, min(form.start for form in merged), max(form.end for form in merged))


def read_reasoning_member(text: str) -> str | None:
    """Return the text of the reasoning member of a JSON object; None if there is no such member."""
    key = _THOUGHTS.search(text)
    try:
        return (str(_JSON.raw_decode(text, key.end())[0]).strip() or None) if key else None
    except ValueError:
        return None


def _form(name: str, spans: list[_Span]) -> Form | None:
    if not spans:
        return None
    fields = tuple(Field(span.kind, span.raw) for span in spans if span.raw is not None)
    return Form(name, fields, spans[0].at, spans[-1].end)


def _is_complete(kinds: set[Kind]) -> bool:
    return len(kinds) > 1 or not kinds.isdisjoint(("p_yes", "probability"))


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


# --- truncation --------------------------------------------------------------------------------------------------------


def _is_unclosed(spans: list[_Span]) -> bool:
    """Return True if a value has no end, and no complete value of the same kind follows."""
    whole = {True: -1, False: -1}
    for span in spans:
        if span.raw is not None:
            whole[span.kind == "answer"] = span.at
    return any(span.raw is None and span.at > whole[span.kind == "answer"] for span in spans)


def _is_unfinished(text: str, last: int) -> bool:
    """Return True if a tag or JSON object begins after the last statement and has no end. last: end of the last statement."""
    tail = text[max(last, len(text) - 12) :]
    begun = tail[tail.rfind("<") :].lower() if "<" in tail else ""
    return text.rfind("{") > max(last - 1, text.rfind("}")) or bool(begun and any(f"<{name}".startswith(begun) for name in _TAGS))


def _is_whole(text: str, spans: list[_Span], forms: list[Form]) -> bool:
    """Return True if a text that was cut off nevertheless ends with a complete answer and number."""
    last = max(span.end for span in spans)
    if not _CLOSERS.match(text, last) and not text.rstrip(" \t\r\n`").endswith("}"):
        return False
    final = max(forms, key=lambda form: form.end)
    if text.rfind("{") > text.rfind("}") or (not final.is_complete and any(form.is_complete for form in forms)):
        return False
    kinds = [kind for kind, _ in final.fields]
    late = list(itertools.takewhile(lambda kind: kind in ("answer", "confidence"), reversed(kinds)))
    if len(set(late)) == 1:  # Half of a pair: the other half belongs to an earlier pair, or precedes P(yes) in the same object.
        return len(late) == len(kinds) or final.name == "json"
    return not late or 2 * late.count(late[0]) <= len(late)


# --- forms -------------------------------------------------------------------------------------------------------------


def _tags(text: str) -> Iterator[_Span]:
    """Yield the statements in tags."""
    name, at, start = "", 0, 0
    for tag in _TAG.finditer(text):
        closes, this = tag[1], tag[2].lower()
        if closes and this == name:
            yield _Span(at, tag.end(), _kind(name), text[start : min(tag.start(), start + _LONGEST)])
            name = ""
        elif not closes:
            if name:
                yield _Span(at, start, _kind(name), None)
            name, at, start = this, tag.start(), tag.end()
    if name:
        yield _Span(at, start, _kind(name), None)


def _members(text: str) -> Iterator[_Span]:
    """Yield the statements in members of JSON objects."""
    end = 0
    for colon in _COLON.finditer(text):
        at = colon.start()
        name = _NAME.search(text, max(end, at - _LONGEST_NAME), at)
        value = _VALUE.match(text, at + 1) if name else None
        if name and value:
            end = value.end()
            yield _Span(name.start(), end, _kind(name[2]), _whole(text, value[1], end))


def _blank_nested(text: str) -> tuple[str, bool]:
    """Blank the objects and lists inside outermost objects, and the objects of a list with several. Also return True if the last outermost
    object or list has no end.
    """
    inner: list[tuple[int, int]] = []
    at, is_open = 0, False
    while (opening := _OUTERMOST.search(text, at)) is not None:
        parts, at = _find_parts(text, opening.end())
        is_open = at < 0
        if opening[0] == "[" and len(parts) == 1 and not is_open and _OUTERMOST.match(text, parts[0][0]):
            at = parts[0][0]  # The only object of a list is an outermost one.
            continue
        inner += parts
        if is_open:
            break
    pieces, end = [], 0
    for start, stop in inner:
        if ":" in text[start:stop]:
            pieces += [text[end : start + 1], " " * (stop - start - 2)]
            end = stop - 1
    return "".join([*pieces, text[end:]]), is_open


def _find_parts(text: str, at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the spans of the objects and lists directly inside an object or list, and the position after it; -1 if it has no end. at: position
    after its opening bracket.
    """
    parts: list[tuple[int, int]] = []
    start, depth = at, 1
    for mark in _BRACKET.finditer(text, at):
        if mark[0] in ("{", "["):
            start = mark.start() if depth == 1 else start
            depth += 1
        elif mark[0] in ("}", "]"):
            depth -= 1
            if depth == 1:
                parts.append((start, mark.end()))
            elif not depth:
                return parts, mark.end()
    return [*parts, (start, len(text) + 1)] if depth > 1 else parts, -1


def _group_members(text: str, members: list[_Span]) -> list[list[_Span]]:
    """Group JSON members by the object that they belong to: a closing brace between two members separates objects."""
    objects: list[list[_Span]] = []
    for span in members:
        if not objects or "}" in text[objects[-1][-1].end : span.at]:
            objects.append([])
        objects[-1].append(span)
    return objects


def _whole(text: str, raw: str, end: int) -> str | None:
    """Return the value of a JSON member, or None if its end is missing. After a comma the value continues if digits follow, as in a decimal
    comma, or in a list.
    """
    if raw[:1] in ("'", '"'):
        return raw
    if text[end : end + 1] in ("'", '"'):
        return raw if text.find(text[end], end + 1) >= 0 else None
    close = _ENDS.match(text, end)
    if close is None:
        return raw if len(raw) >= _LONGEST - 1 else None
    goes_on = close[0].endswith(",") and (text[close.end() : close.end() + 1].isdigit() or raw.startswith("["))
    return f"{raw},…" if goes_on else raw


def _labels(text: str, others: list[_Span], *, ended: bool) -> Iterator[_Span]:
    """Yield the statements on labelled lines, such as "Answer: yes". others: statements in other notations."""
    if ":" not in text and "=" not in text:
        return
    starts = {span.at for span in others}
    for match in _LABEL.finditer(text):
        value, end = match["value"], match.end()
        start = match.start("value")
        if not starts.isdisjoint(range(start, end)) or (not value.strip(" *_") and (ended or end < len(text))):
            continue  # A heading above or before the answer.
        closed = ended or end < len(text)
        yield _Span(match.start(), min(end + 1, len(text)), _kind(match["name"]), value if closed else None)


def _kind(name: str) -> Kind:
    """Return the kind of statement that has this name."""
    return _KINDS.get(name.lower(), "probability")
