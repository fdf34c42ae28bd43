"""Attacks on reading: what one user's rows, or the name of a column, do to everybody else's.

Each module is a program of its own (`python audits/attacks/csv_border.py`); `run.py` runs them all.
"""
