"""Answers and errors as OpenAI, Anthropic and Google write them."""

from __future__ import annotations

from typing import Any

KEY = "sk-topsecret-0123456789"


def chat(finish: str | None = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    """A chat completion of 1,000 and 2,000 tokens with this message."""
    counted = {"prompt_tokens": 1000, "completion_tokens": 2000, "total_tokens": 3000} if usage is None else usage
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": counted}


def openai_error(message: str, code: Any = None, kind: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(stop: str = "end_turn", content: Any = None, **usage: int) -> dict[str, Any]:
    """A message of Anthropic's, of 1,000 and 2,000 tokens, that thought before it answered."""
    parts = [{"type": "thinking", "thinking": "let me see", "signature": "s"}, {"type": "text", "text": "0.4"}]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": parts if content is None else content,
        "stop_reason": stop,
        "usage": {"input_tokens": 1000, "output_tokens": 2000, **usage},
    }


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def gemini(finish: str = "STOP", text: str | None = "0.4") -> dict[str, Any]:
    """An answer of Google's: 1,000 tokens of prompt, 500 of answer, and 1,500 of thoughts that are counted beside them."""
    parts = [{"text": "let me see", "thought": True}, *([{"text": text}] if text is not None else [])]
    counts = {"promptTokenCount": 1000, "candidatesTokenCount": 500, "thoughtsTokenCount": 1500, "totalTokenCount": 3000}
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-x", "responseId": "r1"}


def gemini_error(code: int, status: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, **more}}
