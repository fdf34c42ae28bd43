"""The bundles that the page shows, by name. It refuses folders that are not intact, public bundles."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.export import check_files
from murmurlog.bundle.files import stated_sums
from murmurlog.bundle.progress import measure_all
from murmurlog.bundle.read import load
from murmurlog.bundle.report import report_values
from murmurlog.errors import BundleError, OtherVersion, Refused, UsageError
from murmurlog.web.answers import AnswerCache
from murmurlog.web.index import Index

INTERNAL = re.compile(
    rb"""<meta\s+name=["']murmurlog-report["']\s+content=["']internal["']""", re.I
)
HEAD = 1 << 16  # bytes at the beginning of a page that hold its metadata
MOST_BUNDLES = 20


class ServedBundle:
    """One bundle, loaded and checked."""

    def __init__(self, name: str, root: Path, answers: AnswerCache | None = None) -> None:
        self.name, self.path = name, root
        self.release = load(root)
        check_files(self.release)
        self.index = Index(self.release, answers)

    @property
    def certificate(self) -> Certificate:
        return self.release.certificate

    @property
    def title(self) -> str:
        return self.certificate.title

    @cached_property
    def hashes(self) -> list[tuple[str, str]]:
        """(file, SHA-256) of every file of the bundle."""
        return list(stated_sums(self.path).items())

    @cached_property
    def report(self) -> dict[str, Any]:
        """The values of the report that the page shows too."""
        return report_values(self.certificate, self.release.tables)


class ServedBundles:
    """Bundles by the names of their folders; the page shows the first by default."""

    def __init__(
        self, folders: Iterable[str | Path], *, say: Callable[[str], None] = lambda _: None
    ) -> None:
        roots = [Path(folder) for folder in folders]
        if not roots:
            raise UsageError("there is no bundle to show: give the folder of a bundle")
        if len(roots) > MOST_BUNDLES:
            raise UsageError(
                f"{len(roots)} bundles are too many for one page: give at most {MOST_BUNDLES}"
            )
        for root in roots:
            refuse_internal(root)
        self.by_name: dict[str, ServedBundle] = {}
        answers = AnswerCache()  # one for all bundles
        advance = measure_all(say, "bundles", total=len(roots), unit="bundles")
        for root in roots:
            name = self._name(root)
            say(f"loading {name}")
            try:
                self.by_name[name] = ServedBundle(name, root, answers)
            except (BundleError, OtherVersion) as error:
                raise type(error)(f"{name} cannot be shown: {error}") from None
            advance()

    @property
    def first(self) -> ServedBundle:
        return next(iter(self.by_name.values()))

    def _name(self, root: Path) -> str:
        """The name of a folder, with a number if an earlier bundle has the same."""
        stem = root.resolve().name.encode(errors="replace").decode() or "bundle"
        name, n = stem, 1
        while name in self.by_name:
            n += 1
            name = f"{stem}-{n}"
        return name


def refuse_internal(root: Path) -> None:
    """Raises if this is, or holds, an evaluation report, which states exact numbers of the log."""
    if not root.exists():
        raise BundleError(f"there is no folder {str(root)!r}")
    pages = [root] if root.is_file() else sorted(root.glob("*.htm*"))
    for page in pages:
        if page.is_symlink() or not page.is_file():
            continue  # loading the bundle refuses it; reading a pipe could block for ever
        with page.open("rb") as file:
            if INTERNAL.search(file.read(HEAD)):
                raise Refused(
                    f"{page.name} in {root.name!r} is an internal report with exact numbers of the "
                    "log and must not be served. Give the folder of a bundle"
                )
