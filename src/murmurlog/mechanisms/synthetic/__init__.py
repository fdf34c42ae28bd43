"""Logs of invented users, with a guarantee."""
