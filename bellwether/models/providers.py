"""Providers of models: for each the prefix of its model ids, the environment variables of the key, and the address of its API.

One table for the model client, `bellwether models` and `bellwether doctor --live`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

#: Prefix of the sandbox's models.
SANDBOX = "sandbox"
#: Prefix of a search service, such as search/exa, which is not a model but called like one.
SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Provider:
    """Provider of models, and how its API is reached.

    prefix: of a model's id, as in LiteLLM. variables: environment variables of the key; the first that is set is used. base: address of the
    interface, unless one of `base_variables` is set. path: of the request that tests the key. header, scheme: of the key. extra: further headers.
    """

    prefix: str
    name: str
    variables: tuple[str, ...]
    base: str
    path: str = "/models"
    header: str = "Authorization"
    scheme: str = "Bearer "
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def base_variables(self) -> tuple[str, str]:
        """Environment variables that can replace the address: for OpenAI, OPENAI_API_BASE and OPENAI_BASE_URL."""
        stem = self.variables[0].removesuffix("_API_KEY")
        return f"{stem}_API_BASE", f"{stem}_BASE_URL"

    def other_base(self, environment: Mapping[str, str]) -> str | None:
        """Return the address that the environment sets in place of `base`; None if it sets no address."""
        return next((environment[name].strip() for name in self.base_variables if environment.get(name, "").strip()), None)


def set_variable(variables: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    """Return the first of these variables that is set in `environment`; None if none is set."""
    return next((name for name in variables if environment.get(name, "").strip()), None)


def is_well_formed(key: str) -> bool:
    """Return True if a key can be sent in an HTTP header: printable ASCII without blanks."""
    return key.isascii() and key.isprintable() and " " not in key


#: OpenRouter lists its models without a key, so its description of the key is requested instead.
PROVIDERS = (
    Provider("openai", "OpenAI", ("OPENAI_API_KEY",), "https://api.openai.com/v1"),
    Provider(
        "anthropic",
        "Anthropic",
        ("ANTHROPIC_API_KEY",),
        "https://api.anthropic.com",
        path="/v1/models",
        header="x-api-key",
        scheme="",
        extra=(("anthropic-version", "2023-06-01"),),
    ),
    Provider("openrouter", "OpenRouter", ("OPENROUTER_API_KEY",), "https://openrouter.ai/api/v1", path="/key"),
    Provider(
        "gemini",
        "Google",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "https://generativelanguage.googleapis.com/v1beta",
        header="x-goog-api-key",
        scheme="",
    ),
    Provider("xai", "xAI", ("XAI_API_KEY",), "https://api.x.ai/v1"),
    Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",), "https://api.deepseek.com"),
    Provider("mistral", "Mistral", ("MISTRAL_API_KEY",), "https://api.mistral.ai/v1"),
    Provider("together_ai", "Together", ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"), "https://api.together.xyz/v1"),
    Provider("fireworks_ai", "Fireworks", ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"), "https://api.fireworks.ai/inference/v1"),
    Provider("groq", "Groq", ("GROQ_API_KEY",), "https://api.groq.com/openai/v1"),
    Provider("moonshot", "Moonshot", ("MOONSHOT_API_KEY",), "https://api.moonshot.ai/v1"),
)

BY_PREFIX: Mapping[str, Provider] = {provider.prefix: provider for provider in PROVIDERS}


def provider_name(prefix: str) -> str:
    """Return the display name of the provider with this prefix; for an unknown provider the prefix itself."""
    if prefix in BY_PREFIX:
        return BY_PREFIX[prefix].name
    return "Sandbox" if prefix == SANDBOX else prefix


#: Packages of the extra `search`, by the name of their service.
SEARCH_PACKAGES: Mapping[str, str] = {"exa": "exa_py", "perplexity": "perplexity", "parallel": "parallel"}


def has_search_extra(service: str) -> bool:
    """Return True if the package of a search service is installed (extra `search`). No package is imported."""
    return find_spec(SEARCH_PACKAGES[service]) is not None
