"""Support for agents of interface version 2, whose prices are in mills (tenths of a cent). To be removed in 0.4."""

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
#: Current version of the interface.
API = 3
ADVICE = f"declare api = {API} in its class and state prices in $0.0001"
CENT, DOLLAR = units.CENT // MILL, units.DOLLAR // MILL
_NAMES = ("CENT", "DOLLAR", "cents")
_PRESENT = (("CENT", units.CENT), ("DOLLAR", units.DOLLAR))
_HOMES = ("bellwether.replay", "bellwether.replay.units", "bellwether.replay.agents.agent")


def cents(value: int | float | str | Decimal, name: str = "cents") -> int:
    """Convert cents to mills. Raises `ConfigError` with the parameter's `name` if the value is not a multiple of 0.1 cent."""
    price = agents.cents(value, name)
    if price % MILL:
        raise ConfigError(
            f"reading the parameter {name}: {value!r:.60} is finer than a tenth of a cent; declare api = 3 in the agent's class"
        )
    return price // MILL


def check_api(kind: type[agents.Agent]) -> None:
    """Raise `ConfigError` for an agent class of an unsupported interface version.

    It is also raised for a class of version 2 that is compiled or uses price constants of version 3.
    """
    if kind.api == API:
        return
    where = f"loading the agent {kind.__name__}: it does not declare api = {API}, so its prices are in tenths of a cent"
    if kind.api != API - 1:
        raise ConfigError(f"loading the agent {kind.__name__}: it declares api = {kind.api!r:.20}; declare {API}")
    if issubclass(kind, agents.CompiledAgent):
        raise ConfigError(f"{where}, but compiled agents use $0.0001; convert its prices and declare api = {API} in the class")
    for base in kind.__mro__:
        used = vars(sys.modules.get(base.__module__, object)) if not base.__module__.startswith("bellwether.") else {}
        present = [name for name in _NAMES if used.get(name) is getattr(agents, name, units) or (name, used.get(name)) in _PRESENT]
        if present:
            raise ConfigError(
                f"{where}, but it uses {', '.join(present)} in $0.0001; declare api = {API} in the class and check its numeric constants"
            )


def price_unit(name: str, api: int, grids: Iterable[np.ndarray]) -> int:
    """Return the unit of an agent's prices, as a multiple of $0.0001: 1 for version 3 of the interface, 10 for version 2. Version 2 gives a
    `DeprecationWarning`, and `ConfigError` if a market has finer prices. grids: allowed prices of the markets, $0.0001.
    """
    if api == API:
        return 1
    if any((prices % MILL).any() for prices in grids):
        raise ConfigError(f"running the agent {name}: its prices are in tenths of a cent, and a market has finer prices; {ADVICE}")
    warn_of_mills(name, api)
    return MILL


def warn_of_mills(name: str, api: int) -> None:
    """Issue a `DeprecationWarning` if an agent's prices are in mills."""
    if api != API:
        warnings.warn(
            f"the agent {name} states prices in tenths of a cent, which 0.4 will not support; {ADVICE}", DeprecationWarning, stacklevel=3
        )


def compile_source(source: bytes, path: str) -> Any:
    """Compile an agent's source. If the source sets no `api`, its imports of `CENT`, `DOLLAR` and `cents` are redirected to this module,
    which has them in mills.
    """
    tree = ast.parse(source, path)
    if not any(isinstance(node, ast.Name) and node.id == "api" and isinstance(node.ctx, ast.Store) for node in ast.walk(tree)):
        tree = ast.fix_missing_locations(_ImportRedirection().visit(tree))
    return compile(tree, path, "exec", dont_inherit=True)


class _ImportRedirection(ast.NodeTransformer):
    """Transformer of a syntax tree that redirects imports of price constants to this module. Raises `ConfigError` for `module.CENT` and the
    like.
    """

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
        others: list[ast.stmt] = [node] if node.names else []
        return [*others, *([ast.copy_location(ast.ImportFrom(__name__, prices, 0), node)] if prices else [])]


def scale_prices(simulator: Any, unit: int) -> Any:
    """Return a simulator whose prices are in units of `unit` times $0.0001: the given simulator for 1, wrapped in a `MillProxy` for 10."""
    return simulator if unit == 1 else MillProxy(simulator)


class MillProxy:
    """Proxy of a simulator that converts prices between mills and $0.0001."""

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator, name)

    def bids(self) -> np.ndarray:
        bids: np.ndarray = self._simulator.bids() // MILL
        return bids

    def order(self, order: int) -> Any:
        row = self._simulator.order(order)
        return row if row is None else (*row[:PRICE], row[PRICE] // MILL, *row[PRICE + 1 :])

    def book(self, ticker: int, depth: int) -> Any:
        sides = self._simulator.book(ticker, depth)
        return None if sides is None else tuple(tuple((price // MILL, lots) for price, lots in side) for side in sides)

    def place(self, ticker: int, side: int, action: int, price: int, *rest: Any) -> Any:
        return self._simulator.place(ticker, side, action, _to_price(price), *rest)

    def place_many(self, requests: np.ndarray, tag: str) -> Any:
        converted = requests.copy()
        converted[:, _REQUEST_PRICE] = _to_prices(requests[:, _REQUEST_PRICE])
        return self._simulator.place_many(converted, tag)

    def amend(self, order: int, price: int, lots: int) -> Any:
        return self._simulator.amend(order, _to_price(price), lots)

    def quote(self, ticker: int, yes_price: int, no_price: int, *rest: Any) -> Any:
        return self._simulator.quote(ticker, _to_price(yes_price), _to_price(no_price), *rest)

    def quote_many(self, prices: np.ndarray, *rest: Any) -> Any:
        return self._simulator.quote_many(_to_prices(prices), *rest)


def _to_price(price: int) -> int:
    """Convert a price from mills to $0.0001. Numbers outside the range of prices, such as -1, are unchanged."""
    return price * MILL if 0 <= price <= 2**32 else price


def _to_prices(prices: np.ndarray) -> np.ndarray:
    return np.where((prices >= 0) & (prices <= 2**32), prices * MILL, prices)
