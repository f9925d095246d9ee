"""Questions of the benchmark: selection of settled markets, with the facts known about them at each time."""

from __future__ import annotations

from bellwether.questions.build import build, eligibility, funnel
from bellwether.questions.release import Release, ReleaseName, release, releases, releases_here

__all__ = ["Release", "ReleaseName", "build", "eligibility", "funnel", "release", "releases", "releases_here"]
