"""What is compared with: no guarantee."""
