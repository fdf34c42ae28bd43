"""How useful a release is."""
