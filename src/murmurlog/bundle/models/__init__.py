"""What one does with a release: search, suggest, complete, cache, correct. They see tables only."""
