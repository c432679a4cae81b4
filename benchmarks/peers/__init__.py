"""The parsers that `speed` compares, treefine included: each runs in its own process and Python environment.

Only `treefine_parser` and `bare_encoder` need torch and all of treefine. The others import at most `treefine.treebank`,
which is plain Python.
"""
