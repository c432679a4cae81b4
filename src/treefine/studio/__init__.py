"""The studio: correct a treebank in the browser, with a parser that learns from each correction."""
