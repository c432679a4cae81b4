"""Words and trees on disk: standard library only."""
