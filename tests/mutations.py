"""Mutation check: `make mutate` changes one constant or comparison at a time and requires that a test below one second fails.

tests/mutations.toml lists the changes. `python -m tests.mutations draw SEED COUNT` draws others at random from all numbers and comparisons of its modules.
Everything runs in a temporary worktree of the last commit, never in the checkout.
"""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LISTED = ROOT / "tests" / "mutations.toml"
#: CPU seconds of a test that catches a change.
MOST_SECONDS = 1.0
#: Failures after which a run ends.
_FAILURES = 20
_OPPOSITES: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_SYMBOLS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True, slots=True)
class Mutation:
    """Change of a line. line: its text without indentation, which occurs once in the file. becomes: the text after the change."""

    file: str
    line: str
    becomes: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Change the line in the file below `root`. Raises `ValueError` if it does not occur exactly once."""
        path = root / self.file
        lines = path.read_text(encoding="utf-8").split("\n")
        places = [number for number, text in enumerate(lines) if text.strip() == self.line]
        if len(places) != 1:
            raise ValueError(f"{self.file}: {len(places)} lines are {self.line!r}; tests/mutations.toml needs exactly one")
        lines[places[0]] = lines[places[0]].replace(self.line, self.becomes)
        path.write_text("\n".join(lines), encoding="utf-8")


def read_mutations() -> list[Mutation]:
    """Read the listed changes."""
    found = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    return [Mutation(one["file"], one["line"], one["becomes"], tuple(find_tests(one["file"], found["tests"]))) for one in found["mutation"]]


def find_tests(file: str, tests: Mapping[str, list[str]]) -> list[str]:
    """Return the tests of a file: those of the longest listed path that contains it."""
    return tests[max((path for path in tests if file.startswith(path)), key=len)]


def draw(seed: int, count: int) -> list[Mutation]:
    """Draw changes of numbers and comparisons in the listed files, each in a line that occurs once in its file."""
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    candidates = [change for file in listed["drawn"] for change in _find_changes(file, tuple(find_tests(file, listed["tests"])))]
    random.Random(seed).shuffle(candidates)
    return candidates[:count]


def _find_changes(file: str, tests: tuple[str, ...]) -> Iterator[Mutation]:
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    tree = ast.parse(text)
    # An index selects an element, and text is for people.
    skipped = {id(below) for node in ast.walk(tree) if isinstance(node, (ast.Subscript, ast.JoinedStr)) for below in ast.walk(_inner(node))}
    for node in ast.walk(tree):
        for row, start, end, new in () if id(node) in skipped else _changes_of(node, lines):
            line = lines[row]
            if stripped.count(stripped[row]) == 1:
                yield Mutation(file, stripped[row], (line[:start] + new + line[end:]).strip(), tests)


def _inner(node: ast.Subscript | ast.JoinedStr) -> ast.AST:
    return node.slice if isinstance(node, ast.Subscript) else node


def _changes_of(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """Yield row, first and last column, and new text of each change of a node."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.lineno == node.end_lineno:
        new = repr(node.value + 1 if isinstance(node.value, int) else node.value * 1.1 or 0.1)
        yield node.lineno - 1, *_columns(lines, node.lineno - 1, node.col_offset, node.end_col_offset or 0), new
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            if type(operator) in _OPPOSITES and left.end_lineno == right.lineno:
                row = right.lineno - 1
                start, end = _columns(lines, row, left.end_col_offset or 0, right.col_offset)
                yield row, start, end, lines[row][start:end].replace(_SYMBOLS[type(operator)], _OPPOSITES[type(operator)])


def _columns(lines: list[str], row: int, *offsets: int) -> tuple[int, ...]:
    """Convert offsets in UTF-8 bytes to columns."""
    encoded = lines[row].encode()
    return tuple(len(encoded[:offset].decode()) for offset in offsets)


def run_tests(mutation: Mutation, worktree: Path) -> list[tuple[str, float]]:
    """Run the tests of a change in a worktree. Returns failed tests with their CPU seconds, the fastest first."""
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs"
        environment = {**os.environ, "PYTHONPATH": str(worktree), "NUMBA_CACHE_DIR": f"{folder}/numba"}
        if "numba" not in (worktree / mutation.file).read_text(encoding="utf-8"):
            del environment["NUMBA_CACHE_DIR"]
        words = ["-q", "-n", "0", "-m", "not nightly and not browser and not fleet", f"--maxfail={_FAILURES}", "--costs", str(costs)]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words, *mutation.tests]
        done = subprocess.run(command, cwd=worktree, env=environment, capture_output=True, text=True, check=False)
        if not costs.exists():
            raise RuntimeError(f"{mutation.file}: the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        rows = [json.loads(line) for line in costs.read_text(encoding="utf-8").splitlines()]
        failed = [(test, float(seconds.get("call", 0.0))) for test, outcome, seconds in rows if outcome == "failed"]
        return sorted(failed, key=lambda one: one[1])


def check(mutations: list[Mutation]) -> int:
    """Apply each change, run its tests and print what caught it. Returns the number of changes that no fast test caught."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        worktree = Path(folder) / "worktree"
        _git("worktree", "add", "--quiet", "--detach", str(worktree), "HEAD")
        try:
            for mutation in mutations:
                mutation.apply(worktree)
                failed = run_tests(mutation, worktree)
                caught = bool(failed) and failed[0][1] < MOST_SECONDS
                missed += not caught
                verdict = f"{failed[0][1]:.2f} s  {failed[0][0]}" if failed else "no test fails"
                _print(f"{'caught' if caught else 'MISSED'}  {mutation.file}: {mutation.line}  ->  {mutation.becomes}\n        {verdict}")
                _git("-C", str(worktree), "checkout", "--quiet", "--", ".")
        finally:
            _git("worktree", "remove", "--force", str(worktree))
    _print(f"{len(mutations) - missed} of {len(mutations)} changes are caught by a test below {MOST_SECONDS:g} s")
    return missed


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Check the listed changes, or those whose file contains a given word; or draw changes and print them as TOML."""
    if words[:1] == ["draw"]:
        for mutation in draw(int(words[1]), int(words[2])):
            fields: dict[str, Any] = {"file": mutation.file, "line": mutation.line, "becomes": mutation.becomes}
            _print("[[mutation]]\n" + "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items()))
        return 0
    if words[:1] == ["check"]:
        return check(draw(int(words[1]), int(words[2])))
    return check([one for one in read_mutations() if not words or any(word in one.file for word in words)])


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
