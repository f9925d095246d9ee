"""Agents of the interface before version 3, whose prices are mills (tenths of a cent). To be removed in 0.4."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay import units
from bellwether.replay.agents import agent as agents
from bellwether.replay.agents.gateway import PRICE
from bellwether.replay.agents.interface import REQUEST_COLUMNS
from bellwether.replay.units import MILL

_REQUEST_PRICE = REQUEST_COLUMNS.index("price")
#: Present version of the interface.
API = 3
ADVICE = f"declare api = {API} in its class and state prices in $0.0001"
CENT, DOLLAR = units.CENT // MILL, units.DOLLAR // MILL
_NAMES = ("CENT", "DOLLAR", "cents")
_PRESENT = (("CENT", units.CENT), ("DOLLAR", units.DOLLAR))
_HOMES = ("bellwether.replay", "bellwether.replay.units", "bellwether.replay.agents.agent")


def cents(value: int | float | str | Decimal, name: str = "cents") -> int:
    """Convert cents to mills exactly. Raises `ConfigError`, naming the parameter, for a finer value."""
    price = agents.cents(value, name)
    if price % MILL:
        raise ConfigError(
            f"reading the parameter {name}: {value!r:.60} is finer than a tenth of a cent; declare api = 3 in the agent's class"
        )
    return price // MILL


def check_api(kind: type[agents.Agent]) -> None:
    """Refuse a class of an unknown version, and one of the previous version that is compiled or uses prices of this one. Raises `ConfigError`."""
    if kind.api == API:
        return
    where = f"loading the agent {kind.__name__}: it does not declare api = {API}, so that its prices are tenths of a cent"
    if kind.api != API - 1:
        raise ConfigError(f"loading the agent {kind.__name__}: it declares api = {kind.api!r:.20}; declare {API}")
    if issubclass(kind, agents.CompiledAgent):
        raise ConfigError(f"{where}, and compiled code gets $0.0001; state its prices so and declare api = {API} in the class")
    for base in kind.__mro__:
        used = vars(sys.modules.get(base.__module__, object)) if not base.__module__.startswith("bellwether.") else {}
        present = [name for name in _NAMES if used.get(name) is getattr(agents, name, units) or (name, used.get(name)) in _PRESENT]
        if present:
            raise ConfigError(
                f"{where}, but it uses {', '.join(present)} in $0.0001; declare api = {API} in the class and check plain numbers"
            )


def price_unit(name: str, api: int, grids: Iterable[np.ndarray]) -> int:
    """$0.0001 per integer of a price of an agent: 1 for version 3, else a mill, with a DeprecationWarning.

    grids: prices that the markets allow. Raises `ConfigError` if these are finer than the agent's.
    """
    if api == API:
        return 1
    if any((prices % MILL).any() for prices in grids):
        raise ConfigError(f"running the agent {name}: its prices are tenths of a cent, and a market has finer ones; {ADVICE}")
    warn_of_mills(name, api)
    return MILL


def warn_of_mills(name: str, api: int) -> None:
    """Issue a DeprecationWarning for an agent whose prices are mills."""
    if api != API:
        warnings.warn(
            f"the agent {name} states prices in tenths of a cent, which 0.4 will not read; {ADVICE}", DeprecationWarning, stacklevel=3
        )


def compile_source(source: bytes, path: str) -> Any:
    """Compile an agent's file. One that declares no `api` imports the constants and `cents` of this module, which are in mills."""
    tree = ast.parse(source, path)
    if not any(isinstance(node, ast.Name) and node.id == "api" and isinstance(node.ctx, ast.Store) for node in ast.walk(tree)):
        tree = ast.fix_missing_locations(_Imports().visit(tree))
    return compile(tree, path, "exec", dont_inherit=True)


class _Imports(ast.NodeTransformer):
    """Redirection of imports of prices; raises `ConfigError` where they are reached through a module."""

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if node.attr in _NAMES and isinstance(node.value, ast.Name) and node.value.id not in ("self", "cls"):
            raise ConfigError(
                f"loading an agent: {node.value.id}.{node.attr} is in $0.0001; import {node.attr} by name, or declare api = {API} in the class"
            )
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.module not in _HOMES:
            return node
        prices = [alias for alias in node.names if alias.name in _NAMES]
        node.names = [alias for alias in node.names if alias.name not in _NAMES]
        found: list[ast.stmt] = [node] if node.names else []
        return [*found, *([ast.copy_location(ast.ImportFrom(__name__, prices, 0), node)] if prices else [])]


def scale_prices(simulator: Any, unit: int) -> Any:
    """The simulator with prices in integers of this many $0.0001."""
    return simulator if unit == 1 else MillProxy(simulator)


class MillProxy:
    """Calls of a simulator with prices in mills."""

    def __init__(self, door: Any) -> None:
        self._door = door

    def __getattr__(self, name: str) -> Any:
        return getattr(self._door, name)

    def bids(self) -> np.ndarray:
        found: np.ndarray = self._door.bids() // MILL
        return found

    def order(self, order: int) -> Any:
        row = self._door.order(order)
        return row if row is None else (*row[:PRICE], row[PRICE] // MILL, *row[PRICE + 1 :])

    def book(self, ticker: int, depth: int) -> Any:
        sides = self._door.book(ticker, depth)
        return None if sides is None else tuple(tuple((price // MILL, lots) for price, lots in side) for side in sides)

    def place(self, ticker: int, side: int, action: int, price: int, *rest: Any) -> Any:
        return self._door.place(ticker, side, action, _to_price(price), *rest)

    def place_many(self, requests: np.ndarray, tag: str) -> Any:
        converted = requests.copy()
        converted[:, _REQUEST_PRICE] = _to_prices(requests[:, _REQUEST_PRICE])
        return self._door.place_many(converted, tag)

    def amend(self, order: int, price: int, lots: int) -> Any:
        return self._door.amend(order, _to_price(price), lots)

    def quote(self, ticker: int, yes_price: int, no_price: int, *rest: Any) -> Any:
        return self._door.quote(ticker, _to_price(yes_price), _to_price(no_price), *rest)

    def quote_many(self, prices: np.ndarray, *rest: Any) -> Any:
        return self._door.quote_many(_to_prices(prices), *rest)


def _to_price(price: int) -> int:
    """A price in $0.0001; numbers that are no price remain what they are."""
    return price * MILL if 0 <= price <= 2**32 else price


def _to_prices(prices: np.ndarray) -> np.ndarray:
    return np.where((prices >= 0) & (prices <= 2**32), prices * MILL, prices)
