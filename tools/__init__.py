"""Tools that run from a clone and are not in the package: building pools from public files."""
