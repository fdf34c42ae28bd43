"""The papers' numbers, computed again."""
