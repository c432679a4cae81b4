"""Words and trees on disk: standard library only, and filelock to write files."""
