"""Report of the checks of an episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bellwether.errors import SchemaError

ERROR, WARNING, INFO = "error", "warning", "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check: an error, a warning or a note about an episode.

    severity: error (the episode is refused), warning or info. check: name of the check. file, row: location, with rows counted from 0.
    """

    severity: str
    check: str
    message: str
    file: str | None = None
    row: int | None = None


@dataclass(frozen=True)
class Report:
    """Findings for an episode's folder, errors first. digest: of the content, None after an error. counts: of rows, changes, trades etc."""

    folder: Path
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    digest: str | None

    @property
    def errors(self) -> list[Finding]:
        """Findings that make the episode invalid."""
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        """Findings that a user should look at although the episode can be replayed."""
        return [finding for finding in self.findings if finding.severity == WARNING]

    @property
    def is_valid(self) -> bool:
        """True if the episode can be replayed."""
        return not self.errors

    def text(self) -> str:
        """Return the report as lines of plain text."""
        counts = ", ".join(f"{number:,} {name}" for name, number in self.counts.items())
        verdict = "valid" if self.is_valid else "refused"
        lines = [f"{self.folder.name}: {verdict}; {counts}" if counts else f"{self.folder.name}: {verdict}"]
        return "\n".join([*lines, *(f"{finding.severity:8}{finding.check}: {finding.message}" for finding in self.findings)])


@dataclass
class Findings:
    """Collector of findings during the checks of an episode."""

    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, severity: str, check: str, message: str, file: str | None = None, row: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, check, message, file, row))

    @contextmanager
    def collecting_errors(self, check: str, file: str) -> Iterator[None]:
        """Catch a `SchemaError` raised in the block and add it as a finding of severity error."""
        try:
            yield
        except SchemaError as error:
            self.add(ERROR, check, str(error), file, getattr(error, "row", None))

    @property
    def has_errors(self) -> bool:
        """True if any finding is an error."""
        return any(finding.severity == ERROR for finding in self.findings)

    def report(self, folder: Path, digest: str | None) -> Report:
        """Build the report, errors first."""
        ordered = sorted(self.findings, key=lambda finding: (ERROR, WARNING, INFO).index(finding.severity))
        return Report(folder, tuple(ordered), dict(self.counts), digest)


class RowError(SchemaError):
    """Error in a row of a file."""

    def __init__(self, file: str, row: int, problem: str) -> None:
        self.file, self.row = file, row
        super().__init__(f"reading {file}: row {row}: {problem}")
