"""Scores, significance tests and error breakdowns of any treebank files. Does not need torch."""
