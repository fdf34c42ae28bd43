"""Checks of the cards of a bundle: byte by byte where this version wrote them.

The facts in privacy.json count. Other versions word their cards differently, so those are not checked.
"""

from pathlib import Path

from murmurlog import __version__
from murmurlog.auditing.check import is_same_version, require
from murmurlog.auditing.table_checks import read_checked
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.files import sums
from murmurlog.bundle.write import make_cards


def check_cards(root: Path, certificate: Certificate) -> str:
    """Raises unless the cards are what certificate and tables give; returns how it was checked."""
    if not is_same_version(certificate):
        return (
            f"not checked: murmurlog {certificate.murmurlog} wrote them, and this is murmurlog "
            f"{__version__}; believe privacy.json only"
        )
    tables = {name: read_checked(root, certificate, name) for name in certificate.tables}
    for name, text in make_cards(certificate, sums(root), tables).items():
        require(_is_same(root / name, text), f"{name} is not what the certificate gives")
    return "equal to what the certificate gives, byte by byte"


def _is_same(path: Path, text: str) -> bool:
    wanted = text.encode(errors="replace")
    return path.stat().st_size == len(wanted) and path.read_bytes() == wanted
