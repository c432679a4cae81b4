"""Measure: one runner, one JSON row a run."""
