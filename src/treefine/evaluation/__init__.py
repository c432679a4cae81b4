"""Measure: scores, significance and breakdowns of any treebank files, without torch."""
