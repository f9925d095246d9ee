"""Documents of a corpus, read from Parquet or JSON lines one at a time."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from bellwether.errors import ConfigError
from bellwether.files import open_bytes

#: Characters of a text that are stored, searched and shown; longer texts are cut here.
LONGEST_TEXT = 20_000
#: Documents of a Parquet file that are in memory at once.
_BATCH = 64
_REQUIRED = ("id", "title", "text")

_OUT_OF_RANGE = "not a time between the years 1 and 9999 in UTC, in a known time zone"


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(_OUT_OF_RANGE) from None


Time = Annotated[AwareDatetime, AfterValidator(_to_utc)]


class Document(BaseModel):
    """Document of a corpus. Other columns of the file are ignored.

    published_at: None if unknown; the document is then never shown. revised_at: last change of the text, if it was changed.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    id: str = Field(min_length=1, max_length=400)
    title: Annotated[str, AfterValidator(lambda value: value[:1000])]
    text: Annotated[str, AfterValidator(lambda value: value[:LONGEST_TEXT])]
    url: str | None = Field(None, max_length=4000)
    published_at: Time | None = None
    revised_at: Time | None = None


def read_documents(path: Path) -> Iterator[tuple[int, Document]]:
    """Yield the documents of a file with their row numbers from 1. path: ends with .parquet, .jsonl or .jsonl.gz.

    Raises `ConfigError` that names file, row, field and value of an invalid document.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in (".parquet", ".jsonl"):
        raise ConfigError(f"reading the corpus {path}: the name ends with {path.suffix!r}; give a .parquet or .jsonl file")
    try:
        yield from _read_parquet(path) if suffix == ".parquet" else _read_lines(path)
    except (OSError, EOFError, pa.ArrowException) as error:
        raise ConfigError(f"reading the corpus {path}: {error}; correct the file or its name") from None


def _read_parquet(path: Path) -> Iterator[tuple[int, Document]]:
    with path.open("rb") as opened, pq.ParquetFile(opened) as file:
        present = [name for name in Document.model_fields if name in file.schema_arrow.names]
        if missing := [name for name in _REQUIRED if name not in present]:
            raise ConfigError(f"reading the corpus {path}: the column {missing[0]} is missing; add it")
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH, columns=present):
            columns = _to_microseconds(batch)
            for index in range(batch.num_rows):
                number += 1
                try:
                    yield number, Document.model_validate({name: _read_cell(path, number, name, columns[name][index]) for name in present})
                except ValidationError as error:
                    raise _invalid(path, number, error) from None


def _read_cell(path: Path, number: int, name: str, cell: Any) -> Any:
    """Return the value of a cell. Raises `ConfigError` for a time that Python cannot represent, and for text that is not UTF-8."""
    try:
        return cell.as_py()
    except (OverflowError, LookupError):
        reason = f"{name} = {cell.value} ({cell.type}): {_OUT_OF_RANGE}"
    except UnicodeDecodeError as error:
        reason = f"{name}: {error}"
    raise ConfigError(f"reading the corpus {path}, row {number}: {reason}; correct it")


def _to_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert times in nanoseconds, which Python's datetime does not have."""
    types = [
        field.with_type(pa.timestamp("us", field.type.tz)) if pa.types.is_timestamp(field.type) and field.type.unit == "ns" else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(types), safe=False)


def _read_lines(path: Path) -> Iterator[tuple[int, Document]]:
    with open_bytes(path) as lines:
        for number, line in enumerate(lines, start=1):
            content = line.removeprefix(BOM_UTF8) if number == 1 else line
            if content.strip():
                try:
                    yield number, Document.model_validate_json(content)
                except ValidationError as error:
                    raise _invalid(path, number, error) from None


def _invalid(path: Path, number: int, error: ValidationError) -> ConfigError:
    """Build the error for an invalid row from the first problem in it."""
    first = error.errors(include_url=False)[0]
    field, value = ".".join(map(str, first["loc"])), first["input"]
    if isinstance(value, Mapping) or not field:
        return ConfigError(f"reading the corpus {path}, row {number}: {field or 'the row'}: {first['msg']}; correct it")
    return ConfigError(f"reading the corpus {path}, row {number}: {field} = {_show(value)}: {first['msg']}; correct it")


def _show(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else f"{value!r:.60}"
