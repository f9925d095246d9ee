"""Dagster resources. Each wraps an object of the domain library."""

from resources.io_manager import LakeIOManager, lake_partition
from resources.lake import LakeResource, WarehouseResource, table_schema
from resources.models import ModelsResource

__all__ = ["LakeIOManager", "LakeResource", "ModelsResource", "WarehouseResource", "lake_partition", "table_schema"]
