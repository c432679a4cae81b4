"""Measure how fast treefine is, and how much memory it takes."""
