"""Checking a bundle, and attacking a mechanism."""
