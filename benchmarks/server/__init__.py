"""Measure `treefine serve`: load, outages, and fuzzing."""
