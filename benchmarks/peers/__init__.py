"""The parsers that `running_text` compares, treefine included: each runs in its own process and Python environment.

`treefine_parser` uses only what treefine offered at the base commit too, because it also runs with that commit's code.
The others import at most `treefine.treebank`, which is plain Python.
"""
