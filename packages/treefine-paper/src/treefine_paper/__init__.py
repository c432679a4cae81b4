"""The experiments of the paper: treebanks, systems, runs and reports."""
