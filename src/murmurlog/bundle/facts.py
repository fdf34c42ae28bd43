"""The machine-readable facts of a release in README.md, datapackage.json and report.html.

The wording of cards differs between versions of murmurlog; the facts do not.
"""

from collections.abc import Mapping
from typing import Any

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.certificate_schema import FORMAT
from murmurlog.bundle.files import CERTIFICATE

KEY = "dp"


def facts(certificate: Certificate, sha256: Mapping[str, str]) -> dict[str, Any]:
    """The facts under their key."""
    return {
        KEY: {
            "format": FORMAT,
            "certificate": f"sha256:{sha256[CERTIFICATE]}",
            "release_id": certificate.release_id,
            "published": certificate.published,
            "murmurlog": certificate.murmurlog,
            "private": certificate.private,
            **certificate.guarantee.as_json(),
            "declared_users": certificate.declared_users,
            "ledger": None if certificate.booked is None else dict(certificate.booked),
            "tables": {
                name: {
                    "rows": claim.rows,
                    "count": claim.count,
                    "mechanism": claim.mechanism,
                    "epsilon": claim.guarantee.as_json()["epsilon"],
                    "delta": claim.guarantee.as_json()["delta"],
                }
                for name, claim in certificate.tables.items()
            },
        }
    }
