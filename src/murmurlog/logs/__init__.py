"""Finding, reading and cleaning a log."""
