"""Publishing: a release of the benchmark as a dataset of the Hugging Face Hub."""

from __future__ import annotations

from bellwether.publish.dataset import Exported, export
from bellwether.publish.hub import upload

__all__ = ["Exported", "export", "upload"]
