"""Count the phrases of `prose.conf` in docstrings, comments and pages; fail above its limits. `--list` shows each hit with its replacement."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

RULES = tomllib.loads(Path(__file__).with_name("prose.conf").read_text(encoding="utf-8"))
SUMMARY, TEXT = ([(re.compile(pattern), better) for pattern, better in RULES[part].items()] for part in ("summary", "text"))
SKIPPED = ("tests/", "CHANGELOG.md", ".ci/")


def of_code(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines of docstrings and comments with their numbers; True for the first line of a docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (doc := ast.get_docstring(node)):
            yield from ((getattr(node, "lineno", 1) + number, line, number == 0) for number, line in enumerate(doc.splitlines()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def of_page(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines outside of blocks of code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not line.startswith("    "):
            yield number, line, False


hits: dict[str, list[str]] = {"code": [], "docs": []}
for name in subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines():
    kind = "code" if name.endswith(".py") else "docs" if name.endswith((".md", ".sql", ".toml")) else None
    if kind and not name.startswith(SKIPPED) and Path(name).is_file():
        for number, line, first in (of_code if kind == "code" else of_page)(Path(name).read_text(encoding="utf-8")):
            for pattern, better in (*SUMMARY, *TEXT) if first else TEXT:
                hits[kind] += [f"{name}:{number}: {found[0]!r}: {better}" for found in pattern.finditer(line)]
if "--list" in sys.argv:
    print(*hits["code"], *hits["docs"], sep="\n")
over = [
    f"{len(hits[kind])} phrases in {kind}, at most {most}: see .ci/prose.conf"
    for kind, most in RULES["at_most"].items()
    if len(hits[kind]) > most
]
sys.exit("\n".join(over) or None)
