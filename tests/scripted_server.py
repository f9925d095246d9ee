"""A web server on loopback that gives scripted answers and records requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Answer:
    """Answer with its status, body, content type and Location. drips: the body never ends."""

    status: int = 200
    body: bytes = b'{"data": []}'
    media: str = "application/json"
    location: str = ""
    drips: bool = False


@dataclass(frozen=True)
class Request:
    """Request with its method, path, headers by lower-case name, and body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """Gives `answers` in turn and repeats the last; without answers calls `respond`."""

    answers: list[Answer] = field(default_factory=list)
    respond: Callable[[Request], Answer] = lambda _: Answer()
    seen: list[Request] = field(default_factory=list)
    url: str = ""

    def answer(self, request: Request) -> Answer:
        self.seen.append(request)
        if self.answers:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return self.respond(request)


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Serve until the block ends."""
    found, ended = ScriptedServer(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            answer = found.answer(Request(self.command, self.path, headers, body))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.media)
            if answer.location:
                self.send_header("Location", answer.location)
            self.send_header("Content-Length", str(10**6 if answer.drips else len(answer.body)))
            self.end_headers()
            while answer.drips and not ended.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
            if not answer.drips:
                self.wfile.write(answer.body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        ended.set()
        server.shutdown()
