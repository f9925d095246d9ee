"""Pages of the documentation that are made from the code and from other folders: the data dictionary, results of benchmarks, and examples."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from bellwether.lake.meta import build_dictionary

ROOT = Path(__file__).resolve().parents[1]
#: Files outside of `docs/` that are pages of the site, by their address.
PAGES = {
    "benchmarks.md": ROOT / "benchmarks" / "README.md",
    "examples.md": ROOT / "examples" / "README.md",
    "replay-speed.md": ROOT / "benchmarks" / "replay-speed.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of `docs/`."""
    files.append(File.generated(config, "data-dictionary.md", content=build_dictionary()))
    for name, path in PAGES.items():
        files.append(File.generated(config, name, content=path.read_text(encoding="utf-8").replace("](../docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to the repository's other files to their pages; name files that have none."""
    for name, path in PAGES.items():
        markdown = markdown.replace(f"](../{path.relative_to(ROOT)}", f"]({name}")
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", markdown)
