"""What the rows of a log suggest about how it is written: for its owner, who decides."""
