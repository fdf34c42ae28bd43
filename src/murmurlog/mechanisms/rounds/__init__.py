"""Selection in rounds with memory."""
