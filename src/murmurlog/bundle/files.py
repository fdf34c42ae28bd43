"""The files of a bundle: their names, their checksums and the privacy metadata of Parquet files."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from murmurlog.bundle.certificate import Certificate
from murmurlog.errors import BundleError

CERTIFICATE, SUMS = "privacy.json", "SHA256SUMS"
MOST_JSON_BYTES = 1 << 20


def expected_files(certificate: Certificate) -> set[str]:
    """The names of all files a bundle with this certificate has."""
    names = {"README.md", "croissant.json", "datapackage.json", "deployment.yaml", "report.html"}
    return names | {CERTIFICATE, SUMS} | {f"data/{t}.parquet" for t in certificate.tables}


def metadata(certificate: Certificate) -> dict[str, str]:
    """The privacy metadata of every Parquet file."""
    g = certificate.guarantee
    proved = g.notion != "none"
    return {
        "dp.unit": g.unit,
        "dp.neighbours": g.neighbours,
        "dp.notion": g.notion,
        "dp.epsilon": repr(g.epsilon) if proved else "none",
        "dp.delta": repr(g.delta) if proved else "none",
        "dp.private": str(certificate.private).lower(),
        "dp.release_id": certificate.release_id,
    }


def sums(root: Path) -> dict[str, str]:
    """The SHA-256 of every file but SHA256SUMS itself, by name."""
    return {
        str(path.relative_to(root)): _sha256(path) for path in _files(root) if path != root / SUMS
    }


def checksum_of(root: Path) -> str:
    """The SHA-256 of SHA256SUMS, which stands for every byte of the bundle."""
    if not is_own_file(root, SUMS):
        raise BundleError(f"there is no file {SUMS} in {str(root)!r}")
    return _sha256(root / SUMS)


def stated_sums(root: Path) -> dict[str, str]:
    """The checksums in SHA256SUMS, by file name."""
    if not is_own_file(root, SUMS):
        raise BundleError(f"there is no file {SUMS} in {str(root)!r}")
    if (root / SUMS).stat().st_size > MOST_JSON_BYTES:
        raise BundleError(f"{SUMS} is larger than it can be")
    *lines, end = (root / SUMS).read_bytes().decode(errors="replace").split("\n")
    stated = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if end or len(stated) < len(lines):
        raise BundleError(f"{SUMS} is cut off, or names a file twice")
    return stated


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_own_file(root: Path, name: str) -> bool:
    """Whether a file of a bundle is a regular file, and neither it nor its folder is a link."""
    path = root / name
    folders = path.parents[: len(Path(name).parts) - 1]
    return path.is_file() and not any(part.is_symlink() for part in (path, *folders))


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.is_file())
