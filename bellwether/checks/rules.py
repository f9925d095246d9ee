"""The rules of every table, and the checks of the whole lake, as the domains declare them."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bellwether.checks.rule import LakeCheck, Rule
from bellwether.domains import domains
from bellwether.errors import ConfigError
from bellwether.tables import table as declared

if TYPE_CHECKING:
    RULES: dict[str, tuple[Rule, ...]]


def __getattr__(name: str) -> Any:
    """`RULES` is made when it is first used."""
    if name == "RULES":
        return _rules()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def rules_for(table: str) -> tuple[Rule, ...]:
    """The rules of `table`; () where none are declared."""
    return _rules().get(table, ())


def lake_checks() -> tuple[LakeCheck, ...]:
    """The checks of the whole lake, of all domains."""
    return tuple(check for module in _modules() for check in getattr(module, "LAKE_CHECKS", ()))


@cache
def _rules() -> dict[str, tuple[Rule, ...]]:
    found: dict[str, tuple[Rule, ...]] = {}
    for module in _modules():
        for name, rules in module.RULES.items():
            if name in found:
                raise ConfigError(f"{module.__name__} declares rules of {name}, which another domain does; declare them in one place")
            found[declared(name).name] = tuple(rules)
    return found


def _modules() -> list[ModuleType]:
    return [module for domain in domains() if (module := domain.rules_module()) is not None]
