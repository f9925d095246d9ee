"""A week with a dead endpoint and a gateway that serves another model, over real connections."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from bellwether.checks.rules import rules_for
from tests.arena.weeks import Arena

MODELS = "".join(
    f'[{name}]\nmodel = "openai/gpt-4o"\napi_base = "http://127.0.0.1:{{{name}}}/v1"\nworlds = ["sandbox"]\n'
    for name in ("away", "gateway")
)
LINEUP = (
    '[pair]\ntitle = "t"\nmethodology = "small"\nworlds = ["sandbox"]\n[pair.families]\n'
    'away = "away"\ngateway = "gateway"\nhold = "rule/hold"\ncalibrated = "sandbox-calibrated"\n'
)


class Gateway(BaseHTTPRequestHandler):
    """Holds, in the name of another model."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"message": {"role": "assistant", "content": '{"action": "HOLD", "reasoning": "r"}'}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        whole = {"model": "gpt-4o-mini", "system_fingerprint": "fp_1", "provider": "Elsewhere", "choices": [choice], "usage": usage}
        body = json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving(port: int = 0) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", port), Gateway) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_dead_endpoint_leaves_its_decision_open_and_a_fallback_is_recorded(tmp_path: Path) -> None:
    arena, away = Arena(tmp_path, lineup="pair"), unused_port()
    (arena.registry / "lineups.toml").write_text(LINEUP)
    with serving() as gateway:
        (arena.registry / "models.toml").write_text(MODELS.format(away=away, gateway=gateway))
        arena.decide()
    found = {row["decision_id"].split("/")[1]: row for row in arena.stored()["arena/decisions"].iter_rows(named=True)}
    assert found["away"]["state"] == "open"
    assert {row["state"] for name, row in found.items() if name != "away"} == {"finished"}
    assert found["away"]["action"] is None
    assert f"no connection to http://127.0.0.1:{away}/v1/chat/completions (Connection refused)" in found["away"]["reason"]
    with arena.journal() as journal:
        assert [call.reason for call in journal.unanswered() if call.purpose == "arena/decisions"] == [
            f"no connection to http://127.0.0.1:{away}/v1/chat/completions (Connection refused)"
        ]
    served = ("model", "served_model", "system_fingerprint", "served_by")
    assert [found["gateway"][name] for name in served] == ["openai/gpt-4o", "gpt-4o-mini", "fp_1", "Elsewhere"]
    assert [found["calibrated"][name] for name in served[:2]] == ["sandbox/calibrated", "calibrated"]
    assert [found["hold"][name] for name in served] == [None] * 4
    rule = next(rule for rule in rules_for("arena/decisions") if rule.name == "served_model_is_requested")
    assert rule.condition is not None
    bad = arena.stored()["arena/decisions"].filter(~rule.condition)
    assert bad["decision_id"].to_list() == [found["gateway"]["decision_id"]]

    with serving(away):
        arena.decide()
    again = {row["decision_id"]: row for row in arena.stored()["arena/decisions"].iter_rows(named=True)}
    assert {row["state"] for row in again.values()} == {"finished"}
    assert again[found["gateway"]["decision_id"]] == found["gateway"]
