"""Publish search logs so that the crowd can be heard and no single person can."""

__version__ = "0.1.0"
