"""Parts of a question's text: words, names, numbers and dates, and whether it asks for the opposite. English only."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Words of one meaning, the first of each line standing for all.
_SYNONYMS = """
win champion champions championship crown crowned elect elected lift winner won victory title nominee nominate nominated nomination medal
second runner-up runners-up
last bottom
leave cease out removed resign oust ousted depart exit step
release launch publish published available
increase rise risen higher grow growth above exceed warmer more greater over gone decrease fall fallen lower below less fewer under decline cut cooler
announce cast announced named become name
conquer invade invasion
president presidential presidency
republican gop republicans
democrat democratic democrats
us usa american america
uk british britain
fed reserve
best top
richest wealthiest wealth
hottest warmest
guilty convicted convict
act acted actor
math mathematics mathematical
oscar oscars academy
france french
spain spanish
germany german
turkey turkish
lebanon lebanese
netherlands dutch
switzerland swiss
poland polish
sweden swedish
england english
scotland scottish
ireland irish
ban prohibited prohibit banned
die fatality death dead killed fatalities
"""
_STOP = _split_words(
    """
    a an and are as at be been being both but by can could did do does each either end ever for from get given going had has have having he
    held her his hold how if in into is it its likely many may might most next no nor not of off on only or our own probability question see
    she so some such than that the their them then there these they this those to too until up value was we were what when where whether
    which who will with within would you your before after during compared comparison according happen still take place remain any
    """
)
_OPENERS = _split_words(
    """
    will does do did is are was were has have had by on at in after before the an a new what next when if can could should according
    """
)
_TITLES = _split_words(
    """
    president senator governor mr mrs dr sir king queen prime minister pope general justice judge
    """
)
_NEGATIVE = re.compile(
    r"\b(?:not|never|fails?|failed|failing|avoids?|avoided|without|no longer|neither|nobody|none|deny|denies|lower|below|under|fewer|less than|"
    r"fall|fallen|decrease[sd]?|decline[sd]?)\b|n't\b",
    re.IGNORECASE,
)
_JOIN = re.compile(r"\b(?:and|both|as well as|plus|or)\b|&", re.IGNORECASE)
_DEADLINE = re.compile(r"\b(?:by|before|until|until the end|through|end of|prior to|on or before)\b", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<{}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_DATE = re.compile(
    rf"(?P<before>\bbefore\s+(?:the\s+end\s+of\s+)?)?(?:"
    rf"(?P<y1>\d{{4}})-(?P<m1>[01]\d)-(?P<d1>[0-3]\d)(?!\d)"
    rf"|(?P<y2>20\d\d)\s*[-–/]\s*(?P<e2>20\d\d|\d\d)(?!\d|-)"
    rf"|\b{_MONTH.format('m3')}\s+(?P<d3>[0-3]?\d)(?:st|nd|rd|th)?(?!\d)(?:\s*,?\s+(?P<y3>20\d\d))?"
    rf"|\b(?P<d4>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH.format('m4')}(?:,?\s+(?P<y4>20\d\d))?\b"
    rf"|\b{_MONTH.format('m5')}\s+(?P<y5>20\d\d)\b"
    rf"|(?:end of|late|early|before|by|in|until)\s+{_MONTH.format('m6')}\b(?!\s+\d)"
    rf"|\b(?P<y7>20\d\d)\b)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.])[$€£]?(?P<n>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>k|m|b|bn|million|billion|trillion|thousand)?(?![\w.]*\d|-[a-z])(?=\b|%)",
    re.IGNORECASE,
)
_UNIT = {"k": 3, "thousand": 3, "m": 6, "million": 6, "b": 9, "bn": 9, "billion": 9, "trillion": 12}
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_ORDINALS = {"second": "2", "third": "3", "fourth": "4", "fifth": "5", "runners-up": "2", "runner-up": "2"}
_WORD = re.compile(r"\d+-[a-z]+|[^\W_]+(?:[-'’.][^\W_]+)*")
_NAME = re.compile(r"(?<!\w)(?:\d+-[a-z]+\b|[a-z]?[^\W_a-z][\w'’.&-]*(?:\s+[a-z]?[^\W_a-z\d][\w'’.&-]*)*)")
_DOTTED = re.compile(r"\b(?:[A-Z]\.){2,}")

#: Maximum length of an abbreviation by initials.
_LONGEST_INITIALS = 6

Interval = tuple[date, date]


@dataclass(frozen=True, slots=True)
class QuestionText:
    """Parts of a question.

    Attributes:
        words: roots of its words in order, synonyms alike, without numbers, dates and stop words.
        predicate: those that are in no name.
        names: roots of the words of each name.
        initials: of names, and of parts of them.
        numbers: also ordinal ones; not those in dates and in names such as `30-day`.
        dates: first and last day of each date.
        has_deadline: whether it asks about a time up to a date.
        is_negative: whether it has an odd number of words that turn a question into its opposite, such as `not` and `lower`.
        joins: whether it has an "and" or "or".
    """

    words: tuple[str, ...]
    predicate: frozenset[str]
    names: frozenset[frozenset[str]]
    initials: frozenset[str]
    numbers: frozenset[float]
    dates: frozenset[Interval]
    has_deadline: bool
    is_negative: bool
    joins: bool

    @property
    def has_one_deadline(self) -> bool:
        """True if the question asks about a time up to its only date."""
        return self.has_deadline and len(self.dates) == 1

    def agrees_in_date(self, other: QuestionText) -> bool:
        """Return True if each date of the question with fewer dates overlaps one of the other."""
        few, many = sorted((self.dates, other.dates), key=len)
        return all(any(start <= last and first <= end for first, last in many) for start, end in few)

    def agrees_in_numbers(self, other: QuestionText) -> bool:
        """Return True if one question has all numbers of the other."""
        return self.numbers <= other.numbers or other.numbers <= self.numbers

    def split_names(self, other: QuestionText) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
        """Return the names that another question has, in part, in full or abbreviated, and those that it lacks."""
        known = frozenset(other.words) | other.initials
        sides: tuple[list[frozenset[str]], list[frozenset[str]]] = [], []
        for name in sorted(self.names, key=sorted):
            is_abbreviated = len(name) > 2 and bool(self.initials & frozenset(other.words))
            is_common = name <= known or is_abbreviated or any(name <= one or one <= name for one in other.names)
            sides[not is_common].append(name)
        return sides


def read_question(text: str, closes: datetime) -> QuestionText:
    """Read the text of a question. closes: close of the market, which completes dates without a year."""
    folded = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    undotted = _DOTTED.sub(lambda match: match[0].replace(".", ""), folded)
    plain = undotted.replace("United States", "US").replace("United Kingdom", "UK")
    dates: set[Interval] = set()

    def keep(match: re.Match[str]) -> str:
        found = _read_date(match, closes)
        if found is None:
            return match[0]
        dates.add(found)
        return " , "

    rest = _DATE.sub(keep, plain)
    spans = [_split_name(match[0]) for match in _NAME.finditer(re.sub(r"['’]s\b", " ,", rest))]
    names = {name for span in spans if (name := _read_name(span))}
    letters = ["".join(word[0] for word in span) for span in spans]
    initials = {
        run[start:end]
        for run in letters
        for start in range(len(run))
        for end in range(start + 3, min(start + _LONGEST_INITIALS, len(run)) + 1)
    }
    numbers = {float(match[1]) for match in _ORDINAL.finditer(rest)}
    numbers |= {_read_number(match) for match in _NUMBER.finditer(_ORDINAL.sub(" ", rest))}
    lower = [word.lower() for word in _WORD.findall(rest)]
    numbers |= {float(_ORDINALS[word]) for word in lower if word in _ORDINALS}
    words = tuple(
        _find_root(word) for word in lower if word not in _STOP and word not in _ORDINALS and (not word[0].isdigit() or "-" in word)
    )
    return QuestionText(
        words,
        predicate=frozenset(words).difference(*names),
        names=frozenset(names),
        initials=frozenset(initials),
        numbers=frozenset(numbers),
        dates=frozenset(dates),
        has_deadline=bool(_DEADLINE.search(plain)),
        is_negative=len(_NEGATIVE.findall(rest)) % 2 == 1,
        joins=bool(_JOIN.search(rest)),
    )


def _find_root(word: str) -> str:
    """Return the root of a word in lower case, that of its first synonym."""
    word = re.sub(r"['’]s?$", "", word)
    root = _strip_ending(word)
    return _CLASSES.get(word) or _CLASSES.get(root) or root


def _strip_ending(word: str) -> str:
    for suffix in ("ians", "ian", "ing", "ans", "an", "ese", "ish", "ia", "ed", "es", "is", "i", "o", "a", "e", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= (3 if suffix == "s" else 4):
            return word[: -len(suffix)]
    return word


#: First word of its line for each word, and for its root.
_CLASSES = {
    form: line.split()[0] for line in _SYNONYMS.strip().splitlines() for word in line.split() for form in (word, _strip_ending(word))
}


def _split_name(text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    return words[1:] if words and words[0] in _OPENERS else words


def _read_name(span: list[str]) -> frozenset[str]:
    return frozenset(_find_root(word) for word in span if word not in _TITLES | _STOP and (not word[0].isdigit() or "-" in word))


def _read_number(match: re.Match[str]) -> float:
    return float(match["n"].replace(",", "")) * 10 ** _UNIT.get((match["unit"] or "").lower(), 0)


def _read_date(match: re.Match[str], closes: datetime) -> Interval | None:
    """Return the first and last day of a date; None if it does not exist."""
    parts = {name[0]: text for name, text in match.groupdict().items() if text is not None and name != "before"}
    month = None
    if "m" in parts:
        month = int(parts["m"]) if parts["m"].isdigit() else _MONTHS.index(parts["m"][:3].lower()) + 1
    year, day = (int(parts[name]) if name in parts else None for name in "yd")
    if year is None:
        year = closes.year - (month is not None and month > closes.month + 1)
    try:
        if "e" in parts:  # a season
            return date(year, 7, 1), date(year + 1, 12, 31)
        first = date(year, month or 1, day or 1)
        last = first if day else date(year, month or 12, monthrange(year, month or 12)[1])
    except ValueError:
        return None
    if match["before"] and "end" not in match["before"].lower():
        before = first - timedelta(days=1)
        return (before if day else date(before.year, before.month if month else 1, 1)), before
    return first, last
