"""The page: a release to look at and a budget to choose, in a browser. Sees bundles, never a log."""
