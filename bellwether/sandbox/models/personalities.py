"""Models of known skill: each distorts the true probability in a known way.

The known probability is the one that a model receives from the sandbox; the stated one is the distorted value in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bellwether.sandbox.world.random_draws import Purpose, RandomDraws

#: Bounds of stated probabilities, which have four decimals.
LEAST, MOST = 0.0001, 0.9999


def logit(p: float) -> float:
    """Compute the log odds of a probability."""
    return math.log(p / (1 - p))


def expit(x: float) -> float:
    """Compute the probability with these log odds."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def round_stated(p: float) -> float:
    """Round a probability to four decimals within `LEAST` and `MOST`."""
    return round(min(max(p, LEAST), MOST), 4)


@dataclass(frozen=True, slots=True)
class Personality:
    """Model of the sandbox, with its distortion of the known probability p into the stated one, q: logit q = slope * logit p + noise * z.

    z is standard normal, drawn per question and sample; q has four decimals within [0.0001, 0.9999]. reasons: it returns reasoning in a separate
    field. late: it answers with a delay. fails: two of three questions get a malformed answer or a refusal.
    """

    model: str
    slope: float = 1.0
    noise: float = 0.0
    reasons: bool = False
    late: bool = False
    fails: bool = False

    def distort(self, p: float, z: float = 0.0) -> float:
        """Compute the stated probability q for a known p. z: standard normal noise."""
        return round_stated(expit(self.slope * logit(round_stated(p)) + self.noise * z))

    def states(self, p: float, seed: int, question: int, sample: int) -> float:
        """Compute the stated probability for a known p. seed, question, sample: determine the noise; a sample is one of several answers to
        a question.
        """
        z = RandomDraws(seed, Purpose.MODEL, question, sample).normal() if self.noise else 0.0
        return self.distort(p, z)


#: All personalities by model id.
PERSONALITIES: Mapping[str, Personality] = MappingProxyType(
    {
        personality.model: personality
        for personality in (
            Personality("calibrated"),
            Personality("overconfident", 2.5, reasons=True),
            Personality("contrarian", -1.0),
            Personality("noisy", noise=1.5),
            Personality("slow", reasons=True, late=True),
            Personality("failing", fails=True),
            Personality("researcher", 0.0),
        )
    }
)
