"""Dates that a text mentions as past, which prove that it was written, or changed, after them.

A clause counts as past if it has a verb in the past, such as "ruled", or a word of a report, such as "updated", and does not speak of the future.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Pattern of a month's name, to format with the name of its group.
MONTH = (
    r"(?P<{}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|"
    r"dec(?:ember)?)\.?"
)
_DAY = r"(?P<{}>[0-3]?\d)(?:st|nd|rd|th)?"
#: The look-ahead only saves time.
_DATE = re.compile(
    r"\b(?=[\djfmasond]|in\s)(?:(?P<y1>\d{4})(?P<s1>[-/.])(?P<m1>[01]?\d)(?P=s1)(?P<d1>[0-3]?\d)(?!\d)"
    r"|(?P<a6>\d{1,2})(?P<s6>[-/.])(?P<b6>\d{1,2})(?P=s6)(?P<y6>\d{4})(?!\d)"
    rf"|{MONTH.format('m2')}[\s-]+{_DAY.format('d2')}(?:\s*,?\s+(?P<y2>\d{{4}}))?\b"
    rf"|{_DAY.format('d3')}\.?[\s-]+(?:of\s+)?{MONTH.format('m3')}(?:,?[\s-]+(?P<y3>\d{{4}}))?\b"
    rf"|{MONTH.format('m4')},?\s+(?P<y4>\d{{4}})\b"
    r"|(?:in|since|during)\s+(?P<y5>\d{4})\b)",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|\blast year\b|\byears? ago\b|\b(?:every|each) year\b", re.IGNORECASE)
_WEEKDAY = r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|today)"
#: Words right before a day and month without a year that date what the clause states, unlike "the September 11 attacks".
_DATING = re.compile(
    rf"(?:\b(?:on|since|as of|by|(?:updated|posted|published|modified|edited|revised|corrected|filed)(?:\s+on)?)|{_WEEKDAY})[,:]?\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_WEEKDAY_BEFORE = re.compile(rf"{_WEEKDAY},?\s+(?:the\s+)?$", re.IGNORECASE)
#: A day without a year is one at most this long after the document, else an earlier one.
_HALF_YEAR = timedelta(days=183)
_FUTURE = re.compile(
    r"\b(?:will|would|shall|won't|due|expect\w*|schedul\w*|slated|set (?:for|to)|trial date|plan\w*|upcoming|coming|next|future|until|till|before|"
    r"ahead of|deadline|expir\w+|may|might|could|should|if|whether|forecast\w*|predict\w*|project\w*|target\w*|through|starting|starts|begins|ends|"
    r"closes|opens|resolves|takes|holds|meets|enters|applies|hosts|postponed|delayed|rescheduled|extended|"
    r"(?:likely|ready|going|hopes?|wants?|agreed|aims?|is|are) to)\b|\bon or after\b|'ll\b",
    re.IGNORECASE,
)
#: Words right before a date that is to come: "valid to 31 October". A date after "by" is past in "by then they had left".
_TOWARDS = re.compile(r"\b(?:to|by|for|from|date of|starting)\s+(?:the\s+)?$", re.IGNORECASE)
_PERFECT = re.compile(r"\bhad\b", re.IGNORECASE)
#: "May" is a month where a number follows.
_MAY = re.compile(r"\bmay\.?(?=\s+\d)", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:was|were|had|has|have|did|been|said|won|lost|fell|rose|beat|came|went|took|made|gave|got|held|met|became|began|broke|led|left|paid|saw|"
    r"sold|sent|stood|struck|told|hit|cut|shut|quit|spent|built|brought|bought|caught|chose|drew|drove|fought|flew|found|grew|kept|knew|ran|sank|"
    r"shot|slid|spoke|stole|swept|threw|withdrew|wrote|underwent|overtook|overthrew|sworn|as of|results?|final score|death toll|turnout|winner|"
    r"(?!(?:united|need|hundred|indeed|speed|limited|based|related)\b)\w{2,}ed)\b",
    re.IGNORECASE,
)
_VERB = re.compile(f"{_PAST.pattern}|{_FUTURE.pattern}", re.IGNORECASE)
#: Words at the start of a sentence that date a text: "Last updated on 5 March".
_REPORT = re.compile(
    r"(?:^|[.!?;:|(\n-])\s*(?:last\s+)?(?:updated|posted|published|modified|edited|revised|corrected|correction|filed)\b[^.]{0,20}$",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.!?;:\n]\s|[.!?]$|\n|,\s|\s(?:and|but|which|while)\s", re.IGNORECASE)
#: Words of a clause: fewer before a date, such as "On", introduce the next clause, and so do these.
_SHORTEST_CLAUSE = 3
_INTRODUCTION = re.compile(r"\s*(?:after|following|since|during|by|with|when)\b", re.IGNORECASE)
#: Characters on either side of a date that belong to its clause at most.
_REACH = 200


def find_last_past_date(text: str, after: date) -> date | None:
    """Return the latest date after `after` that a text mentions as past; None without one.

    A day without a year counts if it is in the half year after `after`. Of 03/05/2026 the earlier reading counts; 03.05.2026 is in May.
    """
    found = [day for match in _DATE.finditer(text) if (day := _read_date(text, match, after)) and day > after and _is_past(text, match)]
    return max(found, default=None)


def _read_date(text: str, match: re.Match[str], after: date) -> date | None:
    """Return the date of a match, of a month or year its first day; None for a date that does not exist or whose year is not known."""
    fields = {name[0]: value for name, value in match.groupdict().items() if value is not None}
    if "a" in fields:
        first, second, year = int(fields["a"]), int(fields["b"]), int(fields["y"])
        readings = [(second, first)] if fields["s"] == "." else [(second, first), (first, second)]
        return min((day for reading in readings if (day := _build_date(year, *reading))), default=None)
    month = fields.get("m", "1")
    month_number = parse_month(month)
    day_number = int(fields.get("d", "1"))
    if "y" in fields:
        return _build_date(int(fields["y"]), month_number, day_number)
    days = [_build_date(year, month_number, day_number) for year in (after.year, after.year + 1)]
    found = next((day for day in days if day is not None and timedelta() < day - after <= _HALF_YEAR), None)
    return found if found is not None and month[0].isupper() and _is_of_year(text, match, found.year) else None


def parse_month(text: str) -> int:
    """Return the number of a month from its number or its name, which `MONTH` matches."""
    return int(text) if text.isdigit() else _MONTHS.index(text[:3].lower()) + 1


def _build_date(year: int, month: int, day: int) -> date | None:
    """Return a date; None if it does not exist."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _is_of_year(text: str, match: re.Match[str], year: int) -> bool:
    """Return True if a day without a year dates its clause, and no other year is mentioned around it."""
    before = text[max(0, match.start() - _REACH) : match.start()]
    after = text[match.end() : match.end() + _REACH]
    return bool(_DATING.search(before)) and all(found[0] == str(year) for found in _YEAR.finditer(f"{before} {after}"))


def _is_past(text: str, match: re.Match[str]) -> bool:
    """Return True if the clause of a date speaks of it as past."""
    before = _WEEKDAY_BEFORE.sub("", text[max(0, match.start() - _REACH) : match.start()])
    after = text[match.end() : match.end() + _REACH]
    ends = list(_CLAUSE_END.finditer(before))
    first = before[ends[-1].end() :] if ends else before
    if _REPORT.search(before):
        return True
    end = _CLAUSE_END.search(after)
    if end and not after[: end.start()].strip() and (len(first.split()) < _SHORTEST_CLAUSE or _INTRODUCTION.match(first)):
        end = _CLAUSE_END.search(after, end.end())
        while end and end[0].startswith(",") and not _VERB.search(after[: end.start()]):
            end = _CLAUSE_END.search(after, end.end())
    last = after[: end.end()] if end else after
    clause = _MAY.sub(" ", f"{first} {last}")
    if "?" in last or _FUTURE.search(clause) or (_TOWARDS.search(first) and not _PERFECT.search(clause)):
        return False
    return bool(_PAST.search(clause))
