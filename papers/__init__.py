"""The papers' tables, computed again, and their experiments. Run from a clone: `python -m papers`."""
