"""Train models from recipes and treebanks."""
