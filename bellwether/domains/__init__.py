"""Domains: the subject areas of the platform, such as benchmark and arena.
A new domain is a module here and a line of `BUILT_IN` (docs/extending.md).

Other packages add a domain with an entry point of the group `bellwether.domains` whose value is a `Domain`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from bellwether.domains.arena import ARENA
from bellwether.domains.benchmark import BENCHMARK
from bellwether.domains.domain import Domain, LazyCommand, resolve_reference
from bellwether.domains.replay import REPLAY
from bellwether.domains.venues import VENUES
from bellwether.domains.warehouse import WAREHOUSE
from bellwether.errors import ConfigError

GROUP = "bellwether.domains"

BUILT_IN = (VENUES, BENCHMARK, REPLAY, ARENA)


@cache
def load_domains() -> tuple[Domain, ...]:
    """Return all domains: the built-in ones, those of other packages, and at the end the warehouse, which publishes the tables of the others.

    Raises:
        ConfigError: An entry point cannot be loaded, or two domains have the same name.
    """
    domains = (*BUILT_IN, *(_load_domain(point) for point in entry_points(group=GROUP)), WAREHOUSE)
    names = [domain.name for domain in domains]
    for domain in domains:
        if names.count(domain.name) > 1:
            raise ConfigError(f"two domains are named {domain.name!r}; rename the one of the other package")
    return domains


def _load_domain(point: EntryPoint) -> Domain:
    """Load a domain of another package. Raises `ConfigError` if that fails or the object is not a `Domain`."""
    where = f"the entry point {point.name!r} ({GROUP}) of {point.dist.name if point.dist else point.value}"
    try:
        domain = point.load()
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ConfigError(f"{where} cannot be loaded: {type(error).__name__}: {first}; repair or uninstall that package") from error
    if not isinstance(domain, Domain):
        raise ConfigError(f"{where} is not a bellwether.domains.Domain but {type(domain).__name__}; repair or uninstall that package")
    return domain


__all__ = ["BUILT_IN", "Domain", "LazyCommand", "load_domains", "resolve_reference"]
