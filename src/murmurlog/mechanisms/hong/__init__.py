"""Hong and others 2012: counts by linear programs."""
