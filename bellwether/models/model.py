"""Registry of models: built-in entries, and those in the user's registry folder, each with request parameters, limits, prices and facts of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator, model_validator

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.formatting import is_credential_name, redact
from bellwether.models.providers import SANDBOX, SEARCH, provider_name
from bellwether.registry import KnowledgeCutoff, last_day
from bellwether.settings import World, settings

FILE = "models.toml"

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Elicitation = Literal["tags", "json"]
Combine = Literal["mean", "median"]
Horizon = Literal["1h", "6h", "24h", "7d", "open"]
ToolName = Literal["search", "prices"]
ServiceName = Literal["exa", "perplexity", "parallel"]
Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, allow_inf_nan=False)]

#: Parameters set by a field of the entry, or by the protocol.
_DECIDED = {
    "temperature": "has a field of its own",
    "max_tokens": "has a field of its own",
    "max_completion_tokens": "is max_tokens here",
    "reasoning_effort": "has a field of its own",
    "timeout": "has a field of its own",
    "api_base": "has a field of its own",
    "base_url": "is api_base here",
    "model": "has a field of its own",
    "messages": "is decided by elicitation",
    "response_format": "is decided by elicitation",
    "n": "is samples here",
    "stream": "is decided by the client",
    "num_retries": "is decided by the client",
    "tools": "is decided by the caller",
    "tool_choice": "is decided by the caller",
}
_ID = re.compile(r"[a-z0-9_]+/[^\s/][^\s]*")
#: Name of an environment variable.
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class Model(BaseModel):
    """Entry of the model registry. Prices are dollars per million tokens; None means that LiteLLM's price map applies.

    The default for `title` is the name, for `family` the model's id without its provider, for `description` a sentence of title and provider.
    Prices default to 0 for models at a custom address (`api_base`) or in the sandbox.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    title: StrictStr = Field(min_length=1, max_length=100, description="display name")
    description: StrictStr = Field(min_length=1, description="one sentence for users")
    model: StrictStr = Field(
        max_length=200, description="LiteLLM's id of the model, provider/id; `openai/<id>` for an endpoint of your own"
    )
    family: StrictStr = Field(min_length=1, description="models that differ only in their parameters")
    knowledge_cutoff: KnowledgeCutoff = Field(None, description="instant until which the model may know outcomes; a date includes its day")
    cutoff_source: StrictStr | None = Field(None, min_length=1, description="source of the cutoff: a text or a URL")
    temperature: StrictFloat | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    max_tokens: StrictInt = Field(4096, ge=1, description="maximum number of tokens of an answer, reasoning included")
    reasoning_effort: Effort | None = None
    parameters: dict[StrictStr, Any] = Field(default_factory=dict, description="further parameters, sent verbatim: top_p, seed, …")
    api_base: StrictStr | None = Field(None, description="address of an OpenAI-compatible endpoint")
    key_variable: StrictStr | None = Field(None, description="environment variable of the key; by default the provider's")
    worlds: tuple[World, ...] = Field(tuple(World), min_length=1, description="worlds in which the model is available")
    automatic: StrictBool = Field(False, description="takes part in every release of its worlds without being named")
    concurrency: StrictInt = Field(10, ge=1, le=1000, description="maximum number of concurrent calls")
    requests_per_minute: StrictInt | None = Field(None, ge=1)
    tokens_per_minute: StrictInt | None = Field(None, ge=1)
    timeout: StrictFloat = Field(600.0, gt=0, le=86_400, allow_inf_nan=False, description="seconds for one call")
    input_price: Dollars | None = Field(None, description="dollars per million tokens of prompt")
    output_price: Dollars | None = Field(None, description="dollars per million tokens of answer, reasoning included")
    elicitation: Elicitation = Field("tags", description="format of the forecast: tags, or JSON by structured output")
    samples: StrictInt = Field(1, ge=1, le=100, description="answers per question")
    combine: Combine = Field("mean", description="combination of several answers into one forecast")
    horizon: Horizon = Field(
        "24h", description="date of the forecast: this long before the close, but not before the opening; open: at the opening"
    )
    tools: tuple[ToolName, ...] = Field((), description="tools that the model may call before it answers: search, prices")
    corpus: StrictStr | None = Field(None, min_length=1, description="file of documents; a relative path is in <home>/<world>/corpora")
    search_service: ServiceName | None = Field(None, description="service that is searched in place of a corpus")
    search_price: Dollars | None = Field(None, description="dollars per thousand searches with the service")
    steps: StrictInt = Field(8, ge=1, le=50, description="maximum answers with tool calls")

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, fields: Any) -> Any:
        """Add the defaults that depend on other fields."""
        if not isinstance(fields, dict):
            return fields
        provider, _, bare = str(fields.get("model")).partition("/")
        title = fields.get("title", fields.get("name"))
        defaults: dict[str, Any] = {
            "title": title,
            "family": bare,
            "description": f"{title}, {bare} {'at an endpoint of your own' if fields.get('api_base') else f'of {provider_name(provider)}'}.",
        }
        if fields.get("knowledge_cutoff") is not None:
            defaults["cutoff_source"] = "stated in your registry"
        if fields.get("api_base") is not None or provider == SANDBOX:
            defaults |= {"input_price": Decimal(0), "output_price": Decimal(0)}
        return defaults | fields

    @field_validator("model")
    @classmethod
    def _names_its_provider(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError("must be provider/id without blanks, such as openai/gpt-4o")
        if value.startswith(f"{SEARCH}/"):
            raise ValueError("is a search service and not a model; write search_service")
        return value

    @field_validator("api_base")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            good = False
        if not good or any(character.isspace() for character in value):
            raise ValueError("must be an address such as http://127.0.0.1:8000/v1")
        if parts.path.rstrip("/").endswith("/chat/completions"):
            raise ValueError("must end before /chat/completions, which is appended")
        return value.rstrip("/")

    @field_validator("key_variable")
    @classmethod
    def _is_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not VARIABLE.fullmatch(value):
            raise ValueError("must be the name of an environment variable, in capitals")
        return value

    @field_validator("parameters")
    @classmethod
    def _are_further(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in _DECIDED:
                raise ValueError(f"{name} {_DECIDED[name]}")
        return value

    @model_validator(mode="after")
    def _fields_agree(self) -> Model:
        if self.knowledge_cutoff is None and self.cutoff_source is not None:
            raise ValueError("cutoff_source is given without knowledge_cutoff")
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("input_price and output_price are given both or neither")
        searched = [source for source in (self.corpus, self.search_service) if source is not None]
        if len(searched) != ("search" in self.tools):
            raise ValueError("the tool search and one of corpus and search_service are given together")
        if (self.search_service is None) != (self.search_price is None):
            raise ValueError("search_service and search_price are given both or neither")
        if self.provider == SANDBOX and self.api_base is not None:
            raise ValueError(f"api_base is given for a model of {self.provider}, which has its own address; write openai/{self.id}")
        return self

    @property
    def provider(self) -> str:
        """Provider in the model's id: openai, anthropic, …; `sandbox` for the sandbox's models."""
        return self.model.partition("/")[0]

    @property
    def id(self) -> str:
        """The model's id without the provider, as sent to an OpenAI-compatible endpoint."""
        return self.model.partition("/")[2]

    @property
    def searches(self) -> Model | None:
        """The search service as an entry that the model client calls; None without one."""
        if self.search_service is None:
            return None
        other = dict.fromkeys(("api_base", "key_variable", "requests_per_minute", "tokens_per_minute", "input_price", "output_price"))
        limits = {"concurrency": 5, "timeout": 60.0}
        name = {"name": f"{self.name}/search", "model": f"{SEARCH}/{self.search_service}"}
        return self.model_copy(update={**other, **limits, **name})

    @property
    def is_free(self) -> bool:
        """True if calls cost nothing."""
        return self.input_price == 0 and self.output_price == 0

    @property
    def last_known_day(self) -> str | None:
        """Last day (UTC) whose outcomes the model may know; None without a knowledge cutoff."""
        return None if self.knowledge_cutoff is None else last_day(self.knowledge_cutoff)

    @property
    def request_parameters(self) -> dict[str, Any]:
        """Parameters sent with every request that influence the answer: temperature, maximum tokens, reasoning effort, and further ones."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens, "reasoning_effort": self.reasoning_effort}
        return {**{name: value for name, value in own.items() if value is not None}, **self.parameters}


# --- registry ---------------------------------------------------------------------------------------------------------


def models(folder: Path | None = None) -> dict[str, Model]:
    """Return all models by name: the built-in ones, then those in the user's `folder` (default: the registry folder of the settings).

    Raises `ConfigError` that names file, entry, field and value of an invalid entry. Possible credentials are rejected and not shown.
    """
    return {name: _model(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}


def model(name: str, folder: Path | None = None) -> Model:
    """Return the model called `name`. Raises `ConfigError` with close matches for an unknown name."""
    entries = models(folder)
    if name in entries:
        return entries[name]
    close = get_close_matches(name, entries, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? `bellwether models` lists all" if close else "`bellwether models` lists them"
    raise ConfigError(f"no model is called {name!r}; {hint}, and {FILE} in your registry folder can add more")


def _model(entry: registry.Entry) -> Model:
    """Validate an entry of the registry. Raises `ConfigError` for an invalid field, and for credentials in it."""
    for field, problem in _find_secrets(entry.fields):
        raise ConfigError(
            f"{entry.file}: [{entry.name}] {field}: {problem} (not shown); put the key into an environment variable and its name into key_variable"
        )
    return entry.parse(Model)


def _find_secrets(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and reason for each field of an entry that contains, or may contain, a credential."""
    for path, name, value in _walk_fields(fields, ""):
        if is_credential_name(name):
            yield path, "this name is for a credential"
        elif isinstance(value, str) and redact(value) != value:
            yield path, "the value looks like a key"
    variable = fields.get("key_variable")
    if isinstance(variable, str) and not VARIABLE.fullmatch(variable):
        yield "key_variable", "the value is not the name of an environment variable and may be the key itself"
    if isinstance(base := fields.get("api_base"), str) and _has_credentials(base):
        yield "api_base", "the address contains a user, a password or a query"


def _walk_fields(value: Any, path: str, name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield path, name and value of every field of an entry, nested ones included."""
    if name:
        yield path, name, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk_fields(part, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _walk_fields(part, f"{path}[{place}]", f"{name}[{place}]")


def _has_credentials(address: str) -> bool:
    """Return True if an address contains a user, a password or a query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return "@" in parts.netloc or bool(parts.query)
