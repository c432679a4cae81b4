"""Learn: from a recipe and a treebank to a model."""
