"""Local HTTP server of the static site. It works without Dagster, for `bellwether site --serve`."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class _SitePages(SimpleHTTPRequestHandler):
    """Pages of the static site."""

    error_message_format = "<p>%(message)s. Build the site with <code>bellwether site</code>, or materialize <code>summary/site</code>.</p>"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, unlike the base class."""


def open_site_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Open an HTTP server on 127.0.0.1 for the pages in a folder. port: 0 selects a free one. Raises `OSError` if the port is taken."""
    return ThreadingHTTPServer((HOST, port), partial(_SitePages, directory=str(folder)))
