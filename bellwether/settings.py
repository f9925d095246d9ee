"""Settings of the platform from environment variables and `.env`, and the places of all files that follow from them.

Variables start with `BELLWETHER_`. Secrets are read where they are used and never stored here.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from dotenv import dotenv_values
from pydantic import AwareDatetime, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bellwether.errors import ConfigError
from bellwether.places import place as place_of


class World(StrEnum):
    """Origin of the platform's data: generated (sandbox) or live."""

    SANDBOX = "sandbox"
    LIVE = "live"


class Fleet(StrEnum):
    """Launcher of runs in a deployment on several machines."""

    CELERY = "celery"
    KUBERNETES = "kubernetes"


class Venue(StrEnum):
    """Prediction market from which data is pulled."""

    KALSHI = "kalshi"
    POLYMARKET = "polymarket"


KALSHI_LIVE_URL = "https://external-api.kalshi.com/trade-api/v2"
KALSHI_LIVE_STREAM_URL = "wss://external-api-ws.kalshi.com/trade-api/ws/v2"
GAMMA_LIVE_URL = "https://gamma-api.polymarket.com"
CLOB_LIVE_URL = "https://clob.polymarket.com"


class Settings(BaseSettings):
    """Settings of the platform. `Settings()` reads the variables `BELLWETHER_*` from the environment and from `.env` in the current folder."""

    model_config = SettingsConfigDict(env_prefix="BELLWETHER_", env_file=".env", extra="ignore", frozen=True)

    world: World = Field(default=World.SANDBOX, description="sandbox (generated, offline) or live")
    home: Path = Field(default=Path(".bellwether"), description="folder of all written files, one sub-folder per world")
    fleet: Fleet | None = Field(
        default=None, description="celery or kubernetes: runs are spread over workers (docs/operating.md); one machine when left out"
    )
    workers: int = Field(default=1, ge=1, description="workers of the fleet; each executes two runs at a time")
    heartbeat: int = Field(
        default=10, ge=1, description="seconds between heartbeats of a fleet's run; a worker without three of them is queried, then lost"
    )
    postgres: SecretStr | None = Field(
        default=None,
        description="Postgres URL of a fleet: Dagster's storage and, unless set separately, the journal and the lake's catalog",
    )
    broker: SecretStr | None = Field(default=None, description="Redis URL through which Celery distributes a fleet's runs")
    ui: str = Field(default="http://127.0.0.1:3000", description="address of the fleet's UI, to which commands submit their runs")
    store: str | None = Field(
        default=None,
        description="folder or object-store URL, one sub-folder per world, of all files that are not set separately; home when left out",
    )
    lake: str | None = Field(default=None, description="folder or object-store URL of the lake; <store>/<world>/lake when left out")
    warehouse: str | None = Field(
        default=None,
        description="published DuckDB file, or s3:// prefix of publications; <store>/<world>/warehouse, in a folder with .duckdb, when left out",
    )
    registry: Path | None = Field(
        default=None,
        description="folder with your own releases.toml, forecasters.toml, models.toml, agents.toml, methodologies.toml, families.toml and lineups.toml, read after the built-in ones",
    )
    models: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="language models that run on every release by default, comma-separated; they may cost money"
    )
    budget: Decimal = Field(default=Decimal(20), ge=0, description="maximum dollars of one evaluation's model calls; 0: only free models")
    lineup: str | None = Field(
        default=None, description="lineup of the arena's new cohorts; `sandbox` in the sandbox and `rules`, which costs nothing, elsewhere"
    )
    methodology: str | None = Field(
        default=None,
        description="methodology of the arena's new cohorts, and with it their venue, such as v1-kalshi; their lineup's when left out",
    )
    week_budget: Decimal | None = Field(default=None, ge=0, description="maximum dollars per week of the arena's models; none: no limit")
    week_model_budget: Decimal | None = Field(
        default=None, ge=0, description="maximum dollars per week of one model of the arena; none: no limit"
    )
    reports: str | None = Field(
        default=None, description="folder or object-store URL of reports and exported datasets; <store>/<world>/reports when left out"
    )
    sandbox_seed: int = Field(default=7, description="seed of the generated world")
    sandbox_now: AwareDatetime = Field(
        default=datetime(2026, 10, 1, tzinfo=UTC), description="time of the sandbox's clock, which is stopped"
    )
    sandbox_speed: float = Field(
        default=1.0, gt=0, description="seconds of the sandbox's clock per real second where its clock runs, as for `bellwether record`"
    )
    first_day: datetime = Field(default=datetime(2025, 7, 1, tzinfo=UTC), description="first daily partition (UTC date)")
    kalshi_url: str = Field(default=KALSHI_LIVE_URL, repr=False, description="base URL of Kalshi's REST interface in the live world")
    kalshi_tokens_per_second: float = Field(default=200.0, gt=0, description="read tokens per second of your Kalshi tier; a read costs 10")
    response_mb: int = Field(
        default=64, gt=0, description="maximum MB of a venue's response, compressed and decompressed; a larger one fails"
    )
    venues: Annotated[tuple[Venue, ...], NoDecode] = Field(default=tuple(Venue), description="venues to pull, comma-separated")
    kalshi_stream_url: str = Field(
        default=KALSHI_LIVE_STREAM_URL, repr=False, description="address of Kalshi's WebSocket in the live world"
    )
    gamma_url: str = Field(default=GAMMA_LIVE_URL, repr=False, description="base URL of Polymarket's Gamma interface in the live world")
    clob_url: str = Field(default=CLOB_LIVE_URL, repr=False, description="base URL of Polymarket's CLOB interface in the live world")
    journal: str | None = Field(
        default=None,
        repr=False,
        description="database URL of the journal of model calls; BELLWETHER_POSTGRES or SQLite in <home>/<world>/journal.db when left out",
    )
    recordings: str | None = Field(
        default=None, description="folder or object-store URL of stream recordings; <store>/<world>/recordings when left out"
    )
    episodes: str | None = Field(
        default=None, description="folder or object-store URL of episodes to replay; <store>/<world>/episodes when left out"
    )
    submissions: str | None = Field(
        default=None, description="folder or object-store URL of submitted forecasts; <store>/<world>/submissions when left out"
    )
    site: str | None = Field(
        default=None, description="folder or object-store URL of the static site, next to it data-docs; <store>/<world>/site when left out"
    )
    site_url: str | None = Field(
        default=None,
        description="address of the published site, to which the UI links; `bellwether ui` serves the site locally when left out",
    )
    docs_url: str | None = Field(default=None, description="address of the published documentation, to which the site links")
    code_url: str | None = Field(default=None, description="address of the published source code, to which the site links")
    candle_days: int = Field(default=8, ge=1, le=60, description="days of hourly candles pulled before each market's close")
    candle_markets: int = Field(
        default=2000, ge=0, description="most markets per day for which candles are pulled, chosen by a stable hash; 0 pulls none"
    )

    notify_webhook: SecretStr | None = Field(default=None, description="address to which alarms are posted as JSON; secret")
    keep_runs_days: int = Field(
        default=60,
        ge=1,
        description="days for which Dagster's runs are kept, with their events; those that made the present version of a partition stay",
    )

    @field_validator("first_day", mode="before")
    @classmethod
    def _utc_day(cls, value: object) -> object:
        """Convert a date such as 2025-07-01 to the start of that day in UTC."""
        if isinstance(value, str) and len(value) == 10:
            return f"{value}T00:00:00Z"
        return value

    @field_validator("venues", "models", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """Split a text with commas into a list."""
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @field_validator("store", "lake", "warehouse", "reports", "recordings", "episodes", "submissions", "site", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return str(value) if isinstance(value, Path) else value

    def now(self) -> datetime:
        """Return the current time (UTC) of the world: that of the sandbox's clock in the sandbox, otherwise the real time."""
        return self.sandbox_now.astimezone(UTC) if self.world is World.SANDBOX else datetime.now(UTC)

    @property
    def arena_lineup(self) -> str:
        """Name of the lineup (the competing families) for new cohorts of the arena."""
        return self.lineup or ("sandbox" if self.world is World.SANDBOX else "rules")

    @property
    def world_home(self) -> Path:
        """Absolute folder of this world on this machine. No lake, warehouse or Dagster storage is shared between worlds."""
        return (self.home / self.world.value).expanduser().absolute()

    @property
    def world_store(self) -> str:
        """Absolute folder or object-store URL for those files of the world that all machines share."""
        if self.store is None:
            return str(self.world_home)
        return (
            f"{self.store.rstrip('/')}/{self.world.value}"
            if "://" in self.store
            else str(Path(self.store, self.world.value).expanduser().absolute())
        )

    @property
    def alarms_path(self) -> Path:
        """Absolute path of the log file to which alarms are written."""
        return self.world_home / "alarms.log"

    @property
    def lake_uri(self) -> str:
        """Absolute folder or object-store URL of the lake."""
        return self.lake or f"{self.world_store}/lake"

    @property
    def catalog(self) -> Path | str:
        """SQLite file of the lake's catalog, or the Postgres URL of the journal, which may contain a password."""
        if self.shares_limits:
            return self.journal_url
        return self.world_home / "lake.catalog.db" if "://" in self.lake_uri else Path(f"{self.lake_uri}.catalog.db")

    @property
    def durable(self) -> bool:
        """True if each partition of the lake is flushed to disk when it is written.

        False in the sandbox, whose lake can be rebuilt; `bellwether doctor --files` lists damaged files. The journal is always synced.
        """
        return self.world is not World.SANDBOX

    @property
    def warehouse_uri(self) -> str:
        """Place where the warehouse is published: the absolute path of a DuckDB file, or an object-store URL."""
        place = self.warehouse or (f"{self.world_store}/warehouse" if "://" in self.world_store else f"{self.world_store}/warehouse.duckdb")
        return place.rstrip("/") if "://" in place else str(Path(place).expanduser().absolute())

    @property
    def cache_path(self) -> Path:
        """Absolute folder for local copies of files in an object store. A deleted copy is downloaded again."""
        return self.world_home / "cache"

    def _place(self, name: str, stated: str | None = None) -> Path:
        """Return the place of some files, below the world's store unless `stated`: an absolute local path, or a `UPath` for an object store."""
        path = place_of(stated or f"{self.world_store}/{name}")
        return path.expanduser().absolute() if isinstance(path, Path) else path

    @property
    def site_path(self) -> Path:
        """Folder of the static site, local or in an object store."""
        return self._place("site", self.site)

    @property
    def data_docs_path(self) -> Path:
        """Folder of Great Expectations' HTML pages (Data Docs), next to the site."""
        return self.site_path.with_name("data-docs")

    @property
    def journal_url(self) -> str:
        """Database URL of the journal. It may contain a password, so it must not be printed."""
        if self.journal is None and self.postgres is not None:
            return self.postgres.get_secret_value()
        return self.journal or f"sqlite:///{quote(str(self.world_home / 'journal.db'))}"

    @property
    def shares_limits(self) -> bool:
        """True if all processes share the rate limits of venues and the limits of models, which requires a journal on Postgres."""
        return self.journal_url.startswith("postgres")

    @property
    def reports_uri(self) -> str:
        """Absolute folder or object-store URL of reports and exported datasets."""
        return self.reports or f"{self.world_store}/reports"

    @property
    def submissions_path(self) -> Path:
        """Folder of submitted forecasts, local or in an object store."""
        return self._place("submissions", self.submissions)

    @property
    def restoring_path(self) -> Path:
        """Absolute path of a file that exists while a backup is being restored into this home."""
        return self.world_home / "restoring.txt"

    @property
    def corpora_path(self) -> Path:
        """Folder of the corpora that models name by a relative path. Local or in an object store."""
        return self._place("corpora")

    @property
    def trajectories_path(self) -> Path:
        """Folder with the conversations of language models that traded in backtests. Local or in an object store."""
        return self._place("trajectories")

    @property
    def recordings_path(self) -> Path:
        """Folder of stream recordings, local or in an object store."""
        return self._place("recordings", self.recordings)

    @property
    def recorder_path(self) -> Path:
        """Local folder in which the recorder writes. It differs from `recordings_path` if recordings are kept in an object store."""
        return path if isinstance(path := self.recordings_path, Path) else self.world_home / "recordings"

    @property
    def episodes_path(self) -> Path:
        """Folder of episodes, local or in an object store."""
        return self._place("episodes", self.episodes)

    @property
    def dagster_home(self) -> Path:
        """Absolute path of this world's DAGSTER_HOME. A fleet keeps its run history in Postgres instead."""
        return self.world_home / ("fleet" if self.fleet else "dagster")


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return the settings of this process, read on first use. Raises `ConfigError` that names variable and value of an invalid setting."""
    _require_known_names()
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = f"BELLWETHER_{str(first['loc'][0]).upper()}" if first["loc"] else "the settings"
        raise ConfigError(f"reading {name} = {first['input']!r}: {first['msg']}; .env.example lists what can be set") from None


def _require_known_names() -> None:
    """Raise `ConfigError` for an unknown variable that starts with `BELLWETHER_`."""
    prefix, fields = "BELLWETHER_", [name.upper() for name in Settings.model_fields]
    for place, names in (("the environment", os.environ), (".env", dotenv_values(".env"))):
        for name in names:
            if name.upper().startswith(prefix) and (own := name.upper().removeprefix(prefix)) not in fields:
                near = get_close_matches(own, fields, n=1)
                meant = f"did you mean {prefix}{near[0]}?" if near else ".env.example lists the settings"
                raise ConfigError(f"reading {place}: {name} is no setting; {meant}")
