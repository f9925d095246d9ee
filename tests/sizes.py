"""Sizes of randomised tests: 25 examples in `make test`, 500 in `make test-all`, which sets NIGHTLY=1."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("NIGHTLY") == "1"
EXAMPLES = 500 if NIGHTLY else 25
