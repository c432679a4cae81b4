"""Scores to a tree: decoding, initial parses, the refinement loop, and the Parser class."""
