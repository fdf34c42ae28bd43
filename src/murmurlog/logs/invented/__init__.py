"""Generated logs, which are nobody's."""
