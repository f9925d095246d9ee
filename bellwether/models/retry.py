"""What follows from what came of a call: whether it is an answer, final, worth another attempt, or the end of the model's evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from bellwether.backoff import delay
from bellwether.errors import ConfigError
from bellwether.journal.facts import Outcome
from bellwether.models.wire.call import Result


@dataclass(frozen=True, slots=True)
class Retry:
    """Bounds of asking again.

    Attributes:
        attempts: of one call in one run, not counting those that were turned away by a rate limit.
        turned_away: of those, per call.
        base, cap: seconds of `bellwether.backoff.delay`, with equal jitter; a wait is never shorter than the provider asks for.
        patience: seconds without any answer after which a model that turns calls away, or that fails call after call, is stopped.
        in_a_row: calls that must have failed since the last answer before a failing model is stopped.
        unreachable: rounds of connection errors, without any connection between them, after which a model is stopped.
    """

    attempts: int = 4
    turned_away: int = 20
    base: float = 2.0
    cap: float = 60.0
    patience: float = 600.0
    in_a_row: int = 20
    unreachable: int = 3

    def __post_init__(self) -> None:
        for name in ("attempts", "turned_away", "in_a_row", "unreachable"):
            if getattr(self, name) < 1:
                raise ConfigError(f"asking models again: {name} is {getattr(self, name)!r}; give a whole number from 1")

    def wait(self, failures: int, rng: Random, asked: float | None = None) -> float:
        """Seconds to wait after so many failures; the provider asked for `asked`."""
        return max(delay(failures, rng, base=self.base, cap=self.cap, least=0.5), min(asked or 0.0, self.patience))


class Decision(Enum):
    """What to do with a result.

    ANSWER: store it as the answer, also one that was cut or filtered, as long as it has text: the parser may find the forecast in it.
    FINAL: the model's last word, though no answer (it refused, was filtered, or only thought): stored, and never paid for again.
    AGAIN: the fault of the way or the provider: ask again now, and in the next run.
    REFUSED: the provider will refuse the same request again, and bills nothing for it: ask again in the next run only.
    STOP: no call of this model can succeed.
    """

    ANSWER = auto()
    FINAL = auto()
    AGAIN = auto()
    REFUSED = auto()
    STOP = auto()


_LAST_WORDS = frozenset({Outcome.OK, Outcome.REFUSAL, Outcome.TRUNCATION})


def decide(result: Result) -> Decision:
    """What to do with what came of an attempt."""
    reply = result.reply
    if result.stop is not None:
        return Decision.STOP
    if result.outcome in _LAST_WORDS:
        has_text = bool((reply.content or "").strip())
        return Decision.ANSWER if has_text or (result.outcome is Outcome.OK and result.tool_calls) else Decision.FINAL
    if result.permanent:
        return Decision.REFUSED
    spoke = reply.finish_reason is not None or bool(reply.usage.completion_tokens)
    return Decision.FINAL if result.outcome is Outcome.MALFORMED and spoke else Decision.AGAIN
