"""Choosing a release: forecasts and goals."""
