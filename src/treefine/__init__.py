"""treefine: a dependency parser that corrects itself. Reading and measuring treebanks needs no torch."""

from treefine.errors import AlignmentError, TreebankError, TreefineError
from treefine.evaluation.conll18 import Score, evaluate
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence, Word

__all__ = [
    "AlignmentError",
    "Graph",
    "Score",
    "Sentence",
    "TreebankError",
    "TreefineError",
    "Word",
    "evaluate",
    "read_treebank",
    "write_treebank",
]
__version__ = "0.1.0"
