"""Public sets of keys: pools, result lists, labels."""
