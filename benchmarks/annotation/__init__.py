"""Measure `treefine annotate` with a scripted annotator, who uses the mouse and the keyboard of a real browser."""
