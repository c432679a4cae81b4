"""Measure `treefine serve`: load, outages, and requests that nobody would write."""
