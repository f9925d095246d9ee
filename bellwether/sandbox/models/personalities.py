"""Models of known skill: each distorts the true probability in a known way.

The known probability is the one that a model receives from the sandbox; the stated one is the distorted value in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bellwether.sandbox.world.random_draws import NORMAL, Purpose, RandomDraws

#: Bounds of stated probabilities, which have four decimals.
LEAST, MOST = 0.0001, 0.9999

_QUANTILES = 200


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
class Skill:
    """Distortion of the known probability p into the stated one, q: logit q = slope * logit p + noise * z.

    z is standard normal, drawn per question and sample; q has four decimals within [0.0001, 0.9999].
    """

    slope: float
    noise: float = 0.0

    @property
    def formula(self) -> str:
        """The distortion as text."""
        if self.slope == 1 and not self.noise:
            return "q = p"
        if self.slope == -1 and not self.noise:
            return "q = 1 - p"
        truth = "logit p" if self.slope == 1 else f"{self.slope:g} logit p"
        noise = f" + {self.noise:g} z, z standard normal per question and sample" if self.noise else ""
        return f"logit q = {truth}{noise}"

    def states(self, p: float, z: float = 0.0) -> float:
        """Compute the stated probability q for a known p. z: standard normal noise."""
        return round_stated(expit(self.slope * logit(round_stated(p)) + self.noise * z))

    def excess_brier(self, known: Iterable[float]) -> float:
        """Compute by how much the distortion raises the expected Brier score: the mean of (q - p)² over the known probabilities.

        Without noise p is a function of q, and this is exactly the expected reliability term of Murphy's decomposition.
        """
        shocks = [NORMAL.inv_cdf((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)] if self.noise else [0.0]
        errors = [(self.states(p, z) - p) ** 2 for p in known for z in shocks]
        return math.fsum(errors) / len(errors)


@dataclass(frozen=True, slots=True)
class Personality:
    """Model of the sandbox, with its skill. reasons: it returns reasoning in a separate field. late: it answers with a delay. fails: two of
    three questions get a malformed answer or a refusal.
    """

    model: str
    skill: Skill
    reasons: bool = False
    late: bool = False
    fails: bool = False

    def states(self, p: float, seed: int, question: int, sample: int) -> float:
        """Compute the stated probability for a known p. seed, question, sample: determine the noise; a sample is one of several answers to
        a question.
        """
        z = RandomDraws(seed, Purpose.MODEL, question, sample).normal() if self.skill.noise else 0.0
        return self.skill.states(p, z)


_KNOWN = Skill(1.0)
#: All personalities by model id.
PERSONALITIES: Mapping[str, Personality] = MappingProxyType(
    {
        personality.model: personality
        for personality in (
            Personality("calibrated", _KNOWN),
            Personality("overconfident", Skill(2.5), reasons=True),
            Personality("contrarian", Skill(-1.0)),
            Personality("noisy", Skill(1.0, noise=1.5)),
            Personality("slow", _KNOWN, reasons=True, late=True),
            Personality("failing", _KNOWN, fails=True),
            Personality("researcher", Skill(0.0)),
        )
    }
)


def skill(model: str) -> Skill:
    """Return the distortion of a model by its id, such as noisy or sandbox/noisy. Raises `KeyError` for an unknown model."""
    return PERSONALITIES[model.rpartition("/")[2]].skill
