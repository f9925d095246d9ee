"""Your own model behind an OpenAI-compatible endpoint. `examples/models.toml` is its entry in the registry.

    python examples/custom_endpoint.py [PORT]

Replace `probability` by your model. Servers such as vLLM, Ollama and llama.cpp need an entry only.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def probability(prompt: str) -> float:
    """Return the probability of yes for the question in a prompt. In this example, longer questions get lower probabilities."""
    question = next((line for line in prompt.splitlines() if line.startswith("Question: ")), "")
    return max(0.05, 0.6 - len(question) / 400)


def completion(request: dict[str, Any]) -> dict[str, Any]:
    """Build the body of the response to a chat request. request: body of `POST /v1/chat/completions`."""
    prompt = request["messages"][-1]["content"]
    content = json.dumps({"reasoning": "length of the question", "p_yes": round(probability(prompt), 4)})
    return {
        "id": "example",
        "object": "chat.completion",
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
        "usage": {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": len(content) // 4,
            "total_tokens": (len(prompt) + len(content)) // 4,
        },
    }


class Handler(BaseHTTPRequestHandler):
    """HTTP handler that answers chat completions."""

    def do_POST(self) -> None:
        """Answer one request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(completion(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def server(port: int) -> ThreadingHTTPServer:
    """Create an HTTP server of the endpoint on 127.0.0.1. Its method `serve_forever` runs it."""
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server(int(sys.argv[1]) if len(sys.argv) > 1 else 8000).serve_forever()
