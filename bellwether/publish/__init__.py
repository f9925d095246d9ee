"""Publication of a benchmark release as a dataset on the Hugging Face Hub."""

from __future__ import annotations

from bellwether.publish.dataset import ExportedDataset, export
from bellwether.publish.hub import upload

__all__ = ["ExportedDataset", "export", "upload"]
