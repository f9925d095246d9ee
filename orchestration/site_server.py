"""Local HTTP server of the static site. It works without Dagster, for `bellwether site --serve`."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
#: Page of the site for unknown addresses.
NOT_FOUND = "404.html"


class _SitePages(SimpleHTTPRequestHandler):
    """Pages of the static site; unknown addresses get its page 404.html."""

    error_message_format = "<p>%(message)s. Build the site with <code>bellwether site</code>, or materialize <code>summary/site</code>.</p>"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the site's page for unknown addresses, or else the message."""
        page = Path(self.directory) / NOT_FOUND
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        data = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, unlike the base class."""


def open_site_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Open an HTTP server on 127.0.0.1 for the pages in a folder. port: 0 selects a free one. Raises `OSError` if the port is taken."""
    return ThreadingHTTPServer((HOST, port), partial(_SitePages, directory=str(folder)))
