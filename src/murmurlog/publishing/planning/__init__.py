"""Choosing a release: profiles, forecasts, goals."""
