"""Damage to files."""

from __future__ import annotations

from pathlib import Path


def flip_bit(path: Path) -> None:
    """Change one bit in the middle of a file. Other links to the file keep the content."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace(path, bytes(content))


def replace(path: Path, content: bytes) -> None:
    """Replace a file by one with this content. Other links to the file keep theirs."""
    path.unlink()
    path.write_bytes(content)
