"""Data as scripts: a page that was opened from a folder may load a script beside it, but may not fetch a file."""

from __future__ import annotations

from typing import Any

import orjson

#: Would end the script element or the line, or start a comment; the same characters in JSON's own way of writing them.
_ESCAPES = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_BREAKS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def json_bytes(value: Any) -> bytes:
    """`value` as JSON that may stand within a script element; NaN and infinity are null."""
    data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    for found, written in _ESCAPES if data.isascii() else (*_ESCAPES, *_BREAKS):
        data = data.replace(found, written)
    return data


def script(name: str, value: Any) -> bytes:
    """A script that hands `value` to the page under `name`."""
    return b"bellwether.put(" + json_bytes(name) + b"," + json_bytes(value) + b");\n"
