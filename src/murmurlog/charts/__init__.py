"""Building blocks of SVG and HTML; no data."""
