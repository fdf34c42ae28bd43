"""A loaded release in a notebook: its guarantee, its label and the first rows of each table.

Notebooks show HTML without our style, so it reads well without one. All texts are escaped.
"""

from collections.abc import Mapping

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.label import label
from murmurlog.bundle.report import warnings
from murmurlog.charts import html

ROWS = 5


def as_html(certificate: Certificate, tables: Mapping[str, pa.Table]) -> str:
    """The title and the guarantee, warnings, the first rows of each table, and the privacy label."""
    parts = [html.paragraph(f"{certificate.title}: {certificate.guarantee}")]
    parts += warnings(certificate)
    for name, table in tables.items():
        parts.append(html.heading(f"{name}: {table.num_rows:,} rows"))
        parts.append(_first_rows(table))
    parts.append(html.folded("Privacy label", label(certificate), shown=True))
    return "\n".join(parts)


def _first_rows(table: pa.Table) -> str:
    numbers = [place for place, kind in enumerate(table.schema.types) if not _is_text(kind)]
    rows = [[_text(value) for value in row.values()] for row in table.slice(0, ROWS).to_pylist()]
    return html.grid(table.column_names, rows, numbers=numbers)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_list(kind) or pa.types.is_boolean(kind))


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None:
        return ""
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
