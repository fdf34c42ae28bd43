"""A loaded release in a notebook: its guarantee, its label and the first rows of each table.

Notebooks show HTML without our style, so it reads well without one. All texts are escaped.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.label import label_rows
from murmurlog.bundle.report import warning
from murmurlog.charts import pages

ROWS = 5


def as_html(certificate: Certificate, tables: Mapping[str, pa.Table]) -> str:
    """The title and the guarantee, a warning, the first rows of each table, and the privacy label."""
    report = {
        "certificate": certificate,
        "warning": warning(certificate),
        "label": label_rows(certificate),
    }
    values = {
        "certificate": certificate,
        "report": report,
        "tables": [_first_rows(name, table) for name, table in tables.items()],
    }
    return pages.render("murmurlog.bundle", "notebook.html", values)


def _first_rows(name: str, table: pa.Table) -> dict[str, Any]:
    return {
        "name": name,
        "all": table.num_rows,
        "head": table.column_names,
        "rows": [[_text(v) for v in row.values()] for row in table.slice(0, ROWS).to_pylist()],
        "numbers": [n for n, kind in enumerate(table.schema.types) if not _is_text(kind)],
    }


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_list(kind) or pa.types.is_boolean(kind))


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None:
        return ""
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
