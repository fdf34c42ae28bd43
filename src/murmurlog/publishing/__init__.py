"""Making a release: plan, budget, tables, target."""
