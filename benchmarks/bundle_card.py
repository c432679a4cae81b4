"""The card of a bundled model: what it is, what it reaches, where it fails, whom it is owed to, and its licence."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.english import calibration_errors, scores
from benchmarks.model_rows import Row
from treefine import Parser
from treefine.config import TransformerSettings
from treefine.model.bundled import About
from treefine.training.logs import recipe_toml
from treefine.training.recipe import read_recipe

ATTRIBUTION = """\
- **Treebank**: UD English EWT, release 2.3 of [Universal Dependencies](https://universaldependencies.org)
  (<http://hdl.handle.net/11234/1-2895>), annotations © The Board of Trustees of The Leland Stanford Junior University,
  [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). Natalia Silveira, Timothy Dozat, Marie-Catherine de
  Marneffe, Samuel Bowman, Miriam Connor, John Bauer and Christopher D. Manning: A Gold Standard Dependency Corpus for
  English, LREC 2014. It is annotated over texts of the English Web Treebank (LDC2012T13).
- **Encoder**: [thenlper/gte-small](https://huggingface.co/thenlper/gte-small), MIT licence. Zehan Li, Xin Zhang,
  Yanzhao Zhang, Dingkun Long, Pengjun Xie and Meishan Zhang: Towards General Text Embeddings with Multi-stage
  Contrastive Learning, 2023.
- **These weights** were trained from the treebank. Whether that makes them an adaptation of it is not settled, so to be
  on the safe side they are shared under the same licence,
  [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). They differ from the encoder's by training, and are
  rounded to eight bits. The code of treefine is under Apache-2.0."""

LIMITS = """\
- It has learned from English web text: weblogs, newsgroups, e-mails, reviews and answers. Other kinds of text have more
  errors, other languages get nonsense.
- Where a sentence ends without punctuation, as in headlines, lists and chat, it often sees no end, or one too many.
- Its encoder reads no difference between upper and lower case; the segmenter does.
- It knows the words, tags and labels of UD 2.3; later releases have others, such as multiword tokens for "don't"."""


def bundle_card(
    name: str,
    about: About,
    parser: Parser,
    measured: Mapping[str, Row],
    calibrated: Mapping[str, Row],
    notes: str,
) -> str:
    """The card, with the scores that there are rows of; `notes` are those of the training."""
    parts = [
        _front(name, about),
        f"# {name}: {about.language}, from text to trees",
        _kind(parser),
        f'```\ntreefine parse --model {name} "Nobody knew why."\n```',
        "## What it reaches",
        f"Measures of the CoNLL 2018 shared task on {about.treebank}, in per cent. It was tuned on dev alone.",
        scores(measured) if measured else "It has not been measured yet.",
        "## Confidence",
        _confidence(parser),
        *([_errors(calibrated)] if calibrated else []),
        "## Limits",
        LIMITS,
        "## Licence and attribution",
        ATTRIBUTION,
        "## Recipe",
        _recipe(name, notes),
        *(["## Training", notes] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def _front(name: str, about: About) -> str:
    lines = [
        "library_name: treefine",
        "license: " + about.licence.lower().replace(" ", "-"),
        f"language: {name}",
        f"base_model: {about.encoder}",
        "tags: [dependency-parsing, universal-dependencies]",
    ]
    return "\n".join(["---", *lines, "---"])


def _kind(parser: Parser) -> str:
    settings = parser.model.settings
    encoder = settings.encoder
    layers = (
        f"{encoder.n_layers} layers of width {encoder.width}" if isinstance(encoder, TransformerSettings) else "BiLSTM"
    )
    n_parameters = sum(each.numel() for each in parser.model.parameters())
    return (
        f"A segmenter finds sentences and words; then RNGTr, a graph-to-graph transformer ({layers}, "
        f"{n_parameters / 1e6:.1f} million parameters), tags the words, makes a first tree from nothing, and corrects "
        f"it until nothing changes, in at most {parser.max_steps} steps. It knows "
        f"{len(parser.model.vocabulary.labels)} labels. Its weights are kept in eight bits; they run in eight "
        "bits, float16 or float32, as the machine is fastest (scores: float32)."
    )


def _confidence(parser: Parser) -> str:
    found = parser.model.settings.confidence
    return (
        "The confidence of a head and of a label is the probability that the scores give it, divided first by a "
        f"temperature ({found.arc_temperature:.3f} for heads, {found.label_temperature:.3f} for labels). That of a "
        "whole sentence is a logistic curve over the logarithm of its words' summed doubts, −log p: half at "
        f"{found.sentence_scale:.3f}, with slope {found.sentence_slope:.3f}. All four numbers were fitted on dev to "
        "make what is right there as likely as they can."
    )


def _errors(calibrated: Mapping[str, Row]) -> str:
    lead = "By how much confidence and the share of right ones differ, on gold words without tags, in per cent:"
    return f"{lead}\n\n{calibration_errors(calibrated)}"


def _recipe(name: str, notes: str) -> str:
    """The recipe by its name; and its settings, where no notes of the training tell them."""
    settings = recipe_toml(read_recipe(name))
    if not notes:
        return f"Its folder had no notes of its training. This is the recipe `{name}`:\n\n```toml\n{settings}```"
    if "```toml" not in notes:
        return f"How it was trained is told below; `treefine train {name} --output DIR` trains a model like it."
    if settings in notes:
        return f"`treefine train {name} --output DIR` trains such a model, with the settings below."
    return f"It was trained with the settings below, from which the bundled recipe `{name}` differs by now."
