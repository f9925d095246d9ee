"""Values that a JSON schema allows: wanted ones where they fit, the simplest ones elsewhere."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]
#: The value that is wanted for a property of this name with this schema; `MISSING` where none is.
Wanted = Callable[[str, Schema], Any]

MISSING = object()

_FORMATS = {
    "date-time": "2025-01-01T00:00:00Z",
    "date": "2025-01-01",
    "time": "00:00:00Z",
    "email": "model@sandbox.example",
    "uri": "https://sandbox.example",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_SAMPLES = ("x", "X", "0", "1", "abc", "ABC", "2025-01-01", "KX-1", "YES", "yes", "0.5", "https://sandbox.example", "a@b.example")
_DEEPEST, _MOST_NESTED = 12, 30
_MOST = 1000

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    "integer": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value == int(value)
    ),
}


#: What the value of each keyword must be.
_SOUND: Mapping[str, Callable[[Any], bool]] = {
    "properties": lambda value: isinstance(value, dict),
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    "enum": lambda value: isinstance(value, list),
    "examples": lambda value: isinstance(value, list),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), lambda value: isinstance(value, list) and bool(value)),
    **dict.fromkeys(("items", "additionalProperties"), lambda value: isinstance(value, dict | bool)),
    **dict.fromkeys(("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"), _TYPES["number"]),
    **dict.fromkeys(("minLength", "minItems"), lambda value: _TYPES["integer"](value) and 0 <= value <= _MOST),
    **dict.fromkeys(("maxLength", "maxItems"), lambda value: _TYPES["integer"](value) and value >= 0),
    **dict.fromkeys(("$ref", "pattern", "format", "description"), lambda value: isinstance(value, str)),
}


def flaw(schema: Any, depth: int = 0) -> str | None:
    """The keyword that is no sound JSON schema, or asks for too much; None where all are sound."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, Mapping) or depth > _MOST_NESTED:
        return "schema"
    for name, value in schema.items():
        if name in _SOUND and not _SOUND[name](value):
            return str(name)
    inner = [*schema.get("properties", {}).values(), *_branches(schema), *schema.get("allOf", ())]
    inner += [schema[name] for name in ("items",) if name in schema]
    inner += [part for name in ("$defs", "definitions") if isinstance(schema.get(name), Mapping) for part in schema[name].values()]
    return next((found for part in inner if (found := flaw(part, depth + 1))), None)


def _types(schema: Schema) -> list[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list) and named:
        return [str(name) for name in named]
    if "properties" in schema or "required" in schema:
        return ["object"]
    return ["array"] if "items" in schema else []


def _resolved(schema: Any, root: Schema) -> Schema:
    """The schema itself: references followed, parts of `allOf` merged."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {} if schema is not False else {"enum": []}
        if "$ref" in schema:
            schema = {**_target(str(schema["$ref"]), root), **{name: part for name, part in schema.items() if name != "$ref"}}
        elif "allOf" in schema:
            schema = _merged(
                [{name: part for name, part in schema.items() if name != "allOf"}, *(_resolved(one, root) for one in schema["allOf"])]
            )
        else:
            return schema
    return {}


def _target(reference: str, root: Schema) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _merged(parts: list[Schema]) -> Schema:
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name == "properties":
                merged[name] = {**merged.get(name, {}), **value}
            elif name == "required":
                merged[name] = [*merged.get(name, []), *value]
            else:
                merged[name] = value
    return merged


def _branches(schema: Schema) -> list[Any]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _bounds(schema: Schema) -> tuple[float, float]:
    """Least and most, exclusive ones moved inside."""
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    step = 1 if "integer" in _types(schema) else 1e-6
    if isinstance(above := schema.get("exclusiveMinimum"), int | float) and not isinstance(above, bool):
        low = max(low, above + step)
    if isinstance(below := schema.get("exclusiveMaximum"), int | float) and not isinstance(below, bool):
        high = min(high, below - step)
    return low, high


def _is_multiple(value: float, schema: Schema) -> bool:
    step = schema.get("multipleOf")
    return not step or abs(value / step - round(value / step)) < 1e-9


def fits(value: Any, schema: Any, root: Schema | None = None) -> bool:
    """Whether a value is valid, as far as the common keywords say."""
    root = root if root is not None else schema if isinstance(schema, Mapping) else {}
    plain = _resolved(schema, root)
    types = _types(plain)
    wrong_type = types and not any(_TYPES.get(name, lambda _: True)(value) for name in types)
    if wrong_type or ("enum" in plain and not any(_equal(value, choice) for choice in plain["enum"])):
        return False
    if "const" in plain and not _equal(value, plain["const"]):
        return False
    if (branches := _branches(plain)) and not any(fits(value, branch, root) for branch in branches):
        return False
    return _content_fits(value, plain, root)


def _equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is no number."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _content_fits(value: Any, schema: Schema, root: Schema) -> bool:
    if isinstance(value, str):
        return _string_fits(value, schema)
    if isinstance(value, list):
        return _array_fits(value, schema, root)
    if isinstance(value, dict):
        return _object_fits(value, schema, root)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    low, high = _bounds(schema)
    return low <= value <= high and _is_multiple(value, schema)


def _string_fits(value: str, schema: Schema) -> bool:
    return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf) and _matches(value, schema)


def _matches(value: str, schema: Schema) -> bool:
    try:
        return "pattern" not in schema or re.search(schema["pattern"], value) is not None
    except re.error:
        return True


def _array_fits(value: list[Any], schema: Schema, root: Schema) -> bool:
    items = schema.get("items", {})
    return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf) and all(fits(item, items, root) for item in value)


def _object_fits(value: dict[str, Any], schema: Schema, root: Schema) -> bool:
    known = schema.get("properties", {})
    if any(name not in value for name in schema.get("required", ())):
        return False
    if schema.get("additionalProperties") is False and not set(value) <= set(known):
        return False
    return all(fits(value[name], part, root) for name, part in known.items() if name in value)


def fill(schema: Any, wanted: Wanted, root: Schema | None = None, name: str = "", depth: int = 0) -> Any:
    """A value that the schema allows: what is wanted where it fits, else what the schema suggests, else the simplest."""
    root = root if root is not None else schema if isinstance(schema, Mapping) else {}
    plain = _resolved(schema, root)
    wish = wanted(name, plain)
    if wish is not MISSING and fits(wish, plain, root):
        return wish
    if "const" in plain:
        return plain["const"]
    for suggested in ([plain["default"]] if "default" in plain else []) + list(plain.get("examples", ())) + list(plain.get("enum", ())):
        if fits(suggested, plain, root):
            return suggested
    if depth > _DEEPEST:
        return None
    if branches := _branches(plain):
        rest = {key: part for key, part in plain.items() if key not in ("anyOf", "oneOf")}
        return fill(_merged([rest, _resolved(branches[0], root)]), wanted, root, name, depth + 1)
    return _simplest(plain, wanted, root, name, depth)


def _simplest(schema: Schema, wanted: Wanted, root: Schema, name: str, depth: int) -> Any:
    kind = next(iter(_types(schema)), "string")
    if kind == "object":
        return _object(schema, wanted, root, depth)
    if kind == "array":
        count = schema.get("minItems", 0)
        return [fill(schema.get("items", {}), wanted, root, name, depth + 1) for _ in range(count)]
    if kind in ("number", "integer"):
        return _number(schema, whole=kind == "integer")
    if kind == "string":
        return _string(schema)
    return False if kind == "boolean" else None


def _object(schema: Schema, wanted: Wanted, root: Schema, depth: int) -> dict[str, Any]:
    """All properties near the top, where a value is wanted or the schema is shallow; deeper only what is required."""
    properties, required = schema.get("properties", {}), list(schema.get("required", ()))
    names = [name for name in properties if name in required or (depth < 4 and _is_wanted(name, properties[name], wanted, root))]
    filled = {name: fill(properties[name], wanted, root, name, depth + 1) for name in names}
    return {**filled, **{name: fill({}, wanted, root, name, depth + 1) for name in required if name not in filled}}


def _is_wanted(name: str, schema: Any, wanted: Wanted, root: Schema) -> bool:
    plain = _resolved(schema, root)
    wish = wanted(name, plain)
    return wish is not MISSING and fits(wish, plain, root)


def _number(schema: Schema, *, whole: bool) -> float:
    low, high = _bounds(schema)
    value = min(max(0.0, low), high)
    step = schema.get("multipleOf")
    if step:
        value = math.ceil(round(value / step, 9)) * step
        value = value - step if value > high else value
    return math.ceil(value) if whole else value


def _string(schema: Schema) -> str:
    candidates = [_FORMATS[schema["format"]]] if schema.get("format") in _FORMATS else []
    least = schema.get("minLength", 0)
    candidates += ["", "x" * least, *(sample * max(1, least) for sample in _SAMPLES)]
    return next((text for text in candidates if _string_fits(text, schema)), candidates[0])
