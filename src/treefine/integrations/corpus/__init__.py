"""Parse corpora larger than one machine."""
