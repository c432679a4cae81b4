"""Other people's scorers, asked for the same counts."""

import importlib.util
import io
from functools import cache
from pathlib import Path
from types import ModuleType

from treefine import Score, TreefineError, evaluate

UD_NAMES = tuple("Tokens Sentences Words UPOS XPOS UFeats AllTags Lemmas UAS LAS CLAS MLAS BLEX".split())
Counts = dict[str, tuple[int, int, int, int | None]]


class RefusedError(Exception):
    """A scorer refused the two files."""


@cache
def official_script() -> ModuleType:
    """conll18_ud_eval.py 1.2 as the shared task published it, from the combo-nlp wheel (not imported)."""
    found = importlib.util.find_spec("combo")
    assert found is not None
    assert found.submodule_search_locations
    path = Path(found.submodule_search_locations[0]) / "evaluation" / "conll18_ud_eval.py"
    spec = importlib.util.spec_from_file_location("conll18_ud_eval", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _counts(scores: dict[str, object]) -> Counts:
    return {
        name: (score.gold_total, score.system_total, score.correct, score.aligned_total)  # type: ignore[attr-defined]
        for name, score in scores.items()
        if name in UD_NAMES
    }


def text_file(text: str) -> io.TextIOWrapper:
    """The text as the scripts open a file: every kind of line end is one."""
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


def official(gold: str, system: str) -> Counts:
    script = official_script()
    try:
        return _counts(script.evaluate(*(script.load_conllu(text_file(text)) for text in (gold, system))))
    except script.UDError as error:
        raise RefusedError(error) from error


def udtools(gold: str, system: str) -> Counts:
    """The script as the UD project maintains it today."""
    from udtools import udeval

    try:
        loaded = [udeval.load_conllu(text_file(text), "x", {}) for text in (gold, system)]
        return _counts(udeval.evaluate(*loaded))
    except udeval.UDError as error:
        raise RefusedError(error) from error


def udapi(gold: str, system: str) -> dict[str, tuple[int, int, int]]:
    """An implementation of its own; it wants the same sentences in both files."""
    from udapi.block.eval.conll18 import Conll18
    from udapi.block.read.conllu import Conllu
    from udapi.core.document import Document

    document = Document()
    for zone, text in (("gold", gold), ("pred", system)):
        reader = Conllu(zone=zone, filehandle=io.StringIO(text), ignore_sent_id=1, bundles_per_doc=0)
        reader.process_document(document)
    block = Conll18(gold_zone="gold", print_results=False)
    for bundle in document:
        for tree in bundle:
            block.process_tree(tree)
    total = block.total_count
    content = ("CLAS", "MLAS", "BLEX")
    return {
        name: tuple(total[key + "_cont" * (name in content)] for key in ("gold", "pred")) + (total[name],)
        for name in UD_NAMES[2:]
    }


def counts_of(score: Score) -> tuple[int, int, int, int | None]:
    return (score.gold, score.system, score.correct, score.aligned)


def ours(gold: str, system: str) -> Counts:
    try:
        scores = evaluate(*(io.BytesIO(text.encode()) for text in (gold, system)))
    except TreefineError as error:
        raise RefusedError(error) from error
    return {name: counts_of(scores[name]) for name in UD_NAMES}
