"""Generated logs, without real users."""
