"""Publication of a benchmark release as a dataset on the Hugging Face Hub."""

from __future__ import annotations

from bellwether.publish.dataset import ExportedDataset, export

__all__ = ["ExportedDataset", "export"]
