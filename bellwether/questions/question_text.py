"""Parts of a question's text: words, names, numbers and dates, and whether it asks for the opposite. English only."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from bellwether.corpus.dates import MONTH, parse_month
from bellwether.questions.question_words import NUMBERS, OPENERS, PHRASES, STOP_WORDS, SYNONYMS, TITLES

_NOT = re.compile(
    r"\b(?:not|never|no|fails?|failed|failing|avoids?|avoided|miss(?:es|ed)?|without|neither|nobody|none|or later|other than|rather than)\b|n't\b",
    re.IGNORECASE,
)
_STAYING = re.compile(r"\b(?:still|remains?|stays?|keeps?|retains?|continues?)\b", re.IGNORECASE)
_JOIN = re.compile(r"\b(?:and|both|as well as|plus|or)\b|&", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\b[^,]{1,40}?\band\b", re.IGNORECASE)
_DEADLINE = re.compile(r"\b(?:by|before|until|until the end|through|end of|prior to|on or before)\b", re.IGNORECASE)
_DATE = re.compile(
    rf"(?P<before>\bbefore\s+(?:the\s+end\s+of\s+)?|\b(?:start|beginning)\s+of\s+)?(?:"
    rf"(?P<y1>\d{{4}})-(?P<m1>[01]\d)-(?P<d1>[0-3]\d)(?!\d)"
    rf"|(?P<y2>20\d\d)\s*[-–/]\s*(?P<e2>20\d\d|\d\d)(?!\d|-)"
    rf"|\b{MONTH.format('m3')}\s+(?P<d3>[0-3]?\d)(?:st|nd|rd|th)?(?!\d)(?:\s*,?\s+(?P<y3>20\d\d))?"
    rf"|\b(?P<d4>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH.format('m4')}(?:,?\s+(?P<y4>20\d\d))?\b"
    rf"|\b{MONTH.format('m8')}\s*(?:and|to|through|-|–)\s*{MONTH.format('e8')}\s+(?P<y8>20\d\d)\b"
    rf"|\b{MONTH.format('m5')}\s+(?P<y5>20\d\d)\b"
    rf"|\bQ(?P<q9>[1-4])\s+(?:of\s+)?(?P<y9>20\d\d)\b"
    rf"|(?:(?:end of|late|early|by|in|until)\s+|(?<=before\s)){MONTH.format('m6')}\b(?!\s+\d)"
    rf"|\b(?P<y7>20\d\d)\b)(?P<later>\s+or\s+later\b)?",
    re.IGNORECASE,
)
#: Year of a range after its first date, such as "1 March" of "1 March to 30 June 2026".
_RANGE_END = re.compile(r"\s*(?:and|to|through|until|-|–)\s[^.,;?\d]{0,12}(?:[0-3]?\d[^.;?\d]{0,14})?(20\d\d)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w.])[$€£]?(?P<n>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>k|m|b|bn|million|billion|trillion|thousand)?(?![\w.]*\d|-[a-z])(?=\b|%)",
    re.IGNORECASE,
)
_UNIT = {"k": 3, "thousand": 3, "m": 6, "million": 6, "b": 9, "bn": 9, "billion": 9, "trillion": 12}
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_ORDINALS = {"second": "2", "third": "3", "fourth": "4", "fifth": "5"}
_SPELLED = re.compile(rf"\b({'|'.join(NUMBERS)})(?:[\s-]({'|'.join(NUMBERS)}))?\b", re.IGNORECASE)
_ONE = re.compile(r"\b(?:a|one)\s+(?=hundred|thousand|million|billion|trillion)", re.IGNORECASE)
_HUNDRED = re.compile(r"\b(\d+)\s+hundred\b", re.IGNORECASE)
_WORD = re.compile(r"\d+-[a-z]+|[^\W_]+(?:[-'’.][^\W_]+)*")
_NAME = re.compile(r"(?<!\w)(?:\d+-[a-z]+\b|[a-z]?[^\W_a-z][\w'’.&-]*(?:\s+[a-z]?[^\W_a-z\d][\w'’.&-]*)*)")
_DOTTED = re.compile(r"\b(?:[A-Z]\.){2,}")
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")

#: Maximum length of an abbreviation by initials.
_LONGEST_INITIALS = 6
_PHRASE = re.compile(
    "|".join(
        rf"(?<!\w){phrase if phrase.isupper() else f'(?i:{phrase})'}(?!\w)"
        for phrase in sorted(
            (re.escape(one.strip()) for line in PHRASES.strip().splitlines() for one in line.split("|")[1:]), key=len, reverse=True
        )
    )
)

Interval = tuple[date, date]


@dataclass(frozen=True, slots=True)
class QuestionText:
    """Parts of a question.

    Attributes:
        words: roots of its words in order, synonyms alike, without numbers, dates and stop words.
        predicate: those that are in no name.
        names: roots of the words of each name.
        opening: root of a first word that is a name or only has the capital of a first word; empty without one.
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
    opening: frozenset[str]
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
        theirs = (other.names | {other.opening}) - {frozenset()}
        sides: tuple[list[frozenset[str]], list[frozenset[str]]] = [], []
        for name in sorted((self.names | {self.opening}) - {frozenset()}, key=sorted):
            is_abbreviated = len(name) > 2 and bool(self.initials & frozenset(other.words))
            is_common = name <= known or is_abbreviated or any(name <= one or one <= name for one in theirs)
            sides[not is_common].append(name)
        return sides


def read_question(text: str, closes: datetime) -> QuestionText:
    """Read the first paragraph of a question's text; others explain it. closes: close of the market, which completes dates without a year."""
    plain = _normalize(text.strip().split("\n\n")[0])
    dates: set[Interval] = set()

    def keep(match: re.Match[str]) -> str:
        end = _RANGE_END.match(match.string, match.end())
        found = _read_date(match, closes.replace(year=int(end[1]), month=12, day=1) if end else closes)
        if found is None:
            return match[0]
        dates.add(found)
        return " , "

    rest = _spell_digits(_DATE.sub(keep, plain))
    found_names = [match[0] for match in _NAME.finditer(re.sub(r"['’]s\b", " ,", rest))]
    spans = [_split_name(name) for name in found_names]
    names = {name for span in spans if (name := _read_name(span))}
    opening = frozenset[str]()
    if found_names and found_names[0].istitle() and rest.startswith(found_names[0]) and len(spans[0]) == len(found_names[0].split()) == 1:
        opening = _read_name(spans[0])
        names.discard(opening)
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
        _find_root(word) for word in lower if word not in STOP_WORDS and word not in _ORDINALS and (not word[0].isdigit() or "-" in word)
    )
    return QuestionText(
        words,
        predicate=frozenset(words).difference(*names),
        names=frozenset(names),
        opening=opening,
        initials=frozenset(initials),
        numbers=frozenset(numbers),
        dates=frozenset(dates),
        has_deadline=bool(_DEADLINE.search(plain)),
        is_negative=_is_negative(plain, words, lower),
        joins=bool(_JOIN.search(_BETWEEN.sub(" ", plain))),
    )


def _normalize(text: str) -> str:
    """Return a text without accents, dots of abbreviations and hyphens between words, and with one phrase for each meaning."""
    folded = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    undotted = _DOTTED.sub(lambda match: match[0].replace(".", ""), folded)
    return _HYPHEN.sub(" ", _PHRASE.sub(lambda match: _CANONICAL[match[0].lower()], undotted))


def _spell_digits(text: str) -> str:
    """Return a text with digits for the numbers that are words; "one" alone is kept."""

    def convert(match: re.Match[str]) -> str:
        first, last = (NUMBERS[word.lower()] if word else 0 for word in match.groups())
        return match[0] if first == 1 or 0 < first < 20 <= last else str(first + last)

    digits = _ONE.sub("1 ", _SPELLED.sub(convert, text))
    return _HUNDRED.sub(lambda match: f"{match[1]}00", digits)


def _is_negative(text: str, words: Sequence[str], lower: Sequence[str]) -> bool:
    """Return True for an odd number of turns. Words of staying are one if nothing rises or falls: a price that remains below falls below."""
    staying = set(_STAYING.findall(text.lower()))
    turns = len(_NOT.findall(text)) + any({word, _strip_ending(word)} & _OPPOSITES for word in lower if word not in staying)
    return (turns + (bool(staying) and "increase" not in words)) % 2 == 1


def _find_root(word: str) -> str:
    """Return the root of a word in lower case, that of its first synonym."""
    word = re.sub(r"['’]s?$", "", word)
    root = _strip_ending(word)
    return _CLASSES.get(word) or _CLASSES.get(root) or root


def _strip_ending(word: str) -> str:
    if word.endswith(("an", "ans")) and len(word) > 5:  # a person of a country: Cuban of Cuba
        return word.removesuffix("s")[:-1]
    for ending, shortest in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            root = word[: -len(ending)]
            return root[:-1] if ending in ("ed", "ing", "er") and root[-1] == root[-2] and root[-1] not in "ls" else root
    return word


#: Endings of words, the longest first, with the minimum length of the root.
_ENDINGS = [
    *(
        (ending, 5)
        for ending in (
            "ization",
            "isation",
            "ations",
            "ation",
            "ments",
            "ment",
            "ions",
            "ion",
            "ers",
            "er",
            "ors",
            "or",
            "ates",
            "ated",
            "ate",
        )
    ),
    *((ending, 4) for ending in ("izing", "ized", "izes", "ize", "ally", "ing", "ies", "ed", "es", "al", "ly", "e", "y")),
    ("s", 3),
]


def _list_forms(part: str) -> set[str]:
    return {form for word in part.split() for form in (word, _strip_ending(word))}


_LINES = [line.partition("|") for line in SYNONYMS.strip().splitlines()]
#: First word of its line for each word, and for its root.
_CLASSES = {form: first.split()[0] for first, _, last in _LINES for form in _list_forms(f"{first} {last}")}
_OPPOSITES = frozenset().union(*(_list_forms(last) for _, _, last in _LINES))
_CANONICAL = {phrase.strip().lower(): line.split("|")[0].strip() for line in PHRASES.strip().splitlines() for phrase in line.split("|")[1:]}


def _split_name(text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    return words[1:] if words and words[0] in OPENERS else words


def _read_name(span: list[str]) -> frozenset[str]:
    """Return the roots of a name's words, without titles and the initials before a last name."""
    initials = {word for word in span[:-1] if len(word) == 1}
    return frozenset(
        _find_root(word) for word in span if word not in initials | TITLES | STOP_WORDS and (not word[0].isdigit() or "-" in word)
    )


def _read_number(match: re.Match[str]) -> float:
    return float(match["n"].replace(",", "")) * 10 ** _UNIT.get((match["unit"] or "").lower(), 0)


def _read_date(match: re.Match[str], closes: datetime) -> Interval | None:
    """Return the first and last day of a date; None if it does not exist."""
    parts = {name[0]: text for name, text in match.groupdict().items() if text is not None and name not in ("before", "later")}
    month = parse_month(parts["m"]) if "m" in parts else None
    year, day = (int(parts[name]) if name in parts else None for name in "yd")
    if year is None:
        year = closes.year - (month is not None and month > closes.month + 1)
    try:
        if "e" in parts:
            return _read_range(year, month, parts["e"])
        last_month = month or 12
        if "q" in parts:
            month = 3 * int(parts["q"]) - 2
            last_month = month + 2
        first = date(year, month or 1, day or 1)
        last = first if day else date(year, last_month, monthrange(year, last_month)[1])
    except ValueError:
        return None
    if match["later"] or (match["before"] and "end" not in match["before"].lower()):
        last = first
        first -= timedelta(days=1)
        return (first if day else date(first.year, first.month if month else 1, 1)), last
    if (first, last) == (date(year, 1, 1),) * 2:
        return first - timedelta(days=1), last
    return first, last


def _read_range(year: int, month: int | None, end: str) -> Interval:
    """Return the days of a range of months of a year, of several years, or of a season, which is played in two years."""
    if month is not None:
        last_month = parse_month(end)
        return date(year, month, 1), date(year, last_month, monthrange(year, last_month)[1])
    last = int(end) if len(end) == 4 else year + 1
    return date(year, 7 if last == year + 1 else 1, 1), date(last, 12, 31)
