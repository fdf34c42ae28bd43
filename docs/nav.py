"""The order of the site's menu: folders as listed here, pages by name, so that a new page needs no entry."""

from pathlib import Path
from typing import Any

FOLDERS = {
    "Tutorials": "tutorials",
    "How to": "how-to",
    "Explanation": "explanation",
    "Reference": "reference",
}


def entries(folder: Path, docs: Path) -> list[Any]:
    """The pages of a folder, its index first, then its folders."""
    pages = sorted(folder.glob("*.md"), key=lambda page: (page.name != "index.md", page.name))
    inner = sorted(path for path in folder.iterdir() if path.is_dir() and any(path.glob("*.md")))
    return [page.relative_to(docs).as_posix() for page in pages] + [
        {path.name.capitalize() if path.name != "cli" else "Command line": entries(path, docs)}
        for path in inner
    ]


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    config.nav = ["index.md", "architecture.md"]
    config.nav += [{title: entries(docs / folder, docs)} for title, folder in FOLDERS.items()]
    return config
