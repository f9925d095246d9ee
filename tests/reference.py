"""Writes docs/api: signatures and docstrings of the public names of each public package, read from the source without importing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import griffe

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "api"
PACKAGES = ("calibration", "scoring", "replay", "forecasting", "arena")
_OPENING = """# API reference

Made from the source by `make reference`; do not edit. What is here is stable: it changes only with a new minor version, and CHANGELOG.md says how.

"""
_SIGNATURE_WIDTH = 100


def pages() -> dict[str, str]:
    """The pages by file name: one per package, and an index."""
    found = {f"{name}.md": _page(f"bellwether.{name}") for name in PACKAGES}
    lines = (f"- [`bellwether.{name}`]({name}.md): {_summary(_module(f'bellwether.{name}'))}\n" for name in PACKAGES)
    return {"README.md": _OPENING + "".join(lines), **found}


def _module(path: str) -> griffe.Module:
    """A module parsed alone."""
    stem = ROOT.joinpath(*path.split("."))
    file = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    return griffe.visit(path, file, file.read_text(), docstring_parser=griffe.Parser.google, docstring_options={"warnings": False})


def _page(package: str) -> str:
    module = _module(package)
    parts = [f"# {package}\n", _text(module)]
    parts += [_entry(name, _resolved(module, name)) for name in sorted(map(str, module.exports or ()), key=str.lower)]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def _resolved(module: griffe.Module, name: str) -> griffe.Object:
    """What a name of a module is, through its imports."""
    found = module[name]
    if not found.is_alias:
        return cast(griffe.Object, found)
    home, _, original = cast(griffe.Alias, found).target_path.rpartition(".")
    return _resolved(_module(home), original)


def _entry(name: str, found: griffe.Object) -> str:
    return "\n".join([f"## {name}\n", *_described(name, found, "###")])


def _described(name: str, found: griffe.Object, level: str) -> Iterator[str]:
    if isinstance(found, griffe.Function):
        yield _code(_signature(found))
        yield _text(found)
    elif isinstance(found, griffe.Class):
        yield _code(f"class {name}" + (f"({', '.join(map(str, found.bases))})" if found.bases else ""))
        yield _text(found)
        yield from _members(found, level)
    elif isinstance(found, griffe.Attribute):
        yield _code(_field(found))
        yield _comment(found)


def _bases(found: griffe.Class) -> Iterator[griffe.Class]:
    """The project's classes that `found` inherits from and that are not public themselves."""
    public = {str(name) for package in PACKAGES for name in _module(f"bellwether.{package}").exports or ()}
    module = cast(griffe.Module, found.parent)
    for base in set(map(str, found.bases)) - public:
        if base in module.members and (home := module[base]).is_alias and home.target_path.startswith("bellwether."):
            yield cast(griffe.Class, _resolved(module, base))


def _members(found: griffe.Class, level: str) -> Iterator[str]:
    """Fields and values, then properties and methods, in the order of the source."""
    declared = {name: member for part in (*_bases(found), found) for name, member in part.members.items()}
    public = {name: member for name, member in declared.items() if not name.startswith("_") or name == "__init__"}
    fields = [member for member in public.values() if isinstance(member, griffe.Attribute) and "property" not in member.labels]
    if fields:
        yield _code("\n".join(map(_field, fields)))
    for name, member in public.items():
        if isinstance(member, griffe.Attribute) and "property" in member.labels:
            yield f"{level} {found.name}.{name}\n"
            yield _code(f"{name}: {member.annotation}")
            yield _text(member)
        elif isinstance(member, griffe.Function):
            yield f"{level} {found.name}{'' if name == '__init__' else '.' + name}\n"
            yield _code(_signature(member))
            yield _text(member)


def _field(found: griffe.Attribute) -> str:
    if not found.annotation and "instance-attribute" in found.labels:
        return found.name
    return f"{found.name}: {found.annotation}" if found.annotation else f"{found.name} = {found.value}"


def _comment(found: griffe.Attribute) -> str:
    """What the lines above a constant say of it, after `#:`."""
    lines: list[str] = []
    for line in reversed(Path(str(found.filepath)).read_text().splitlines()[: (found.lineno or 1) - 1]):
        if not line.startswith("#:"):
            break
        lines.insert(0, line[2:].strip())
    return " ".join(lines) + "\n" if lines else ""


def _signature(found: griffe.Function) -> str:
    """A call with types and defaults, on one line where it fits."""
    shown = [one for one in found.parameters if one.name not in ("self", "cls")]
    arguments: list[str] = []
    for place, one in enumerate(shown):
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(one.kind, "")
        before = {other.kind for other in shown[:place]}
        if one.kind is griffe.ParameterKind.keyword_only and not before & {one.kind, griffe.ParameterKind.var_positional}:
            arguments.append("*")
        text = f"{stars}{one.name}" + (f": {one.annotation}" if one.annotation else "")
        has_default = one.default is not None and not stars
        arguments.append(text + (f"{' = ' if one.annotation else '='}{one.default}" if has_default else ""))
    name = found.parent.name if found.name == "__init__" and found.parent else found.name
    end = f" -> {found.returns}" if found.returns and found.name != "__init__" else ""
    line = f"{name}({', '.join(arguments)}){end}"
    return line if len(line) <= _SIGNATURE_WIDTH else f"{name}(\n" + "".join(f"    {one},\n" for one in arguments) + f"){end}"


def _text(found: griffe.Object) -> str:
    """A docstring as Markdown."""
    if found.docstring is None:
        return ""
    sections = found.docstring.parsed
    if any(isinstance(section, griffe.DocstringSectionAdmonition) for section in sections):
        return found.docstring.value.strip() + "\n"  # a line such as "pairs: one row per pair" begins no section
    return "\n".join(_section(section) + "\n" for section in sections)


def _section(section: griffe.DocstringSection) -> str:
    if isinstance(section, griffe.DocstringSectionText):
        return section.value.strip()
    title = section.title or section.kind.value.capitalize()
    lines = [f"- {_item(item)}" for item in section.value]
    return "\n".join([f"{title}:\n", *lines])


def _item(item: griffe.DocstringElement) -> str:
    text = " ".join(item.description.split())
    name = item.name if isinstance(item, griffe.DocstringNamedElement) else str(item.annotation or "")
    return f"`{name}`: {text}" if name else text


def _summary(module: griffe.Module) -> str:
    return " ".join(module.docstring.value.split("\n\n")[0].split()) if module.docstring else ""


def _code(text: str) -> str:
    quoted = text if '"' in text else text.replace("'", '"')  # as ruff formats it
    return f"```python\n{quoted}\n```\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.md"):
        file.unlink()
    for name, page in pages().items():
        (FOLDER / name).write_text(page)
