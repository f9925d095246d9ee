"""Backup of a world into one folder with checksums, and restoration into an empty home (`BELLWETHER_HOME`)."""

from __future__ import annotations

from bellwether.backup.backup import backup, select_expired
from bellwether.backup.restore import restore

__all__ = ["backup", "restore", "select_expired"]
