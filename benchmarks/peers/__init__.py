"""Parsers that `speed` compares, ours among them: each in a process of its own, with the Python it is installed in.

Only `treefine_parser` and `bare_encoder` need torch and all of treefine; the others import at most its treebanks, which
are plain Python.
"""
