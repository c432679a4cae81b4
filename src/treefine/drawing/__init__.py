"""Graphs to look at: in a terminal, as SVG, as a page. The standard library alone."""
