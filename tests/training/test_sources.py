"""The parses that a model learns to refine, as each source has them."""

from tests.support.tiny import sample, tiny_parser
from tests.support.trainings import CPU
from treefine import Constraints
from treefine.training.data import Data
from treefine.training.initial_parses import ParseSource
from treefine.training.processes import Processes
from treefine.training.recipe import InitialSettings


def parses(settings, data, folder):
    """Return the parses of a source for which no parser has to be trained."""
    making = ParseSource("", settings, None, None, folder, data, Processes(CPU), form=None).parses()
    try:
        next(making)
    except StopIteration as end:
        return end.value
    raise AssertionError("a parser was trained")


def test_marks_in_the_treebank_do_not_give_its_arcs_away(tmp_path):
    """A treebank that was corrected with marks is a treebank like all others to learn from."""
    tiny_parser(max_steps=1).save(tmp_path / "model")
    plain = tuple(sample(12))
    marked = tuple(
        Constraints(dict(enumerate(each.heads, start=1)), dict(enumerate(each.labels, start=1))).mark(each)
        for each in plain
    )
    settings = InitialSettings(parser=str(tmp_path / "model"))

    found = parses(settings, Data(marked, marked[:4], {}), tmp_path)

    expected = parses(settings, Data(plain, plain[:4], {}), tmp_path)
    assert (found.train, found.dev) == (expected.train, expected.dev)
    assert any(arcs != each.arcs for arcs, each in zip(found.train, plain, strict=True))
