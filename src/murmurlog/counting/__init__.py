"""From a log to counts: items, the contribution bound, tallies."""
