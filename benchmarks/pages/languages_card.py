"""Write the model card and the description of the bundled parser of many languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean

from benchmarks.accuracy.languages import treebank_facts
from benchmarks.pages.languages import FROM_TEXT, FROM_WORDS, attribution, languages_about, scores_by_treebank
from benchmarks.rows import Row, read_rows
from treefine import Parser
from treefine.model.bundled import About, LanguageAbout

LIMITS = """\
- It follows the treebanks below, and their releases of UD differ: the same construction may have another tree in
  another language. `--lang` accepts a treebank such as `fr_sequoia`, to choose whose habits it follows.
- Treebanks marked * have no training file here; the model learned from 90% of their dev set.
- It has no XPOS tags, no features and lemmas for Maltese, no lemmas for Thai and Faroese, and no features in the
  style of `ko_kaist`, because the treebanks have none.
- Thai, Chinese, Japanese and Vietnamese words are not separated by spaces, so finding them costs several points of
  LAS.
- A language that is not listed gets a tree in the manner of a related one, with a warning. Expect many errors.
- For English, `en` is more accurate."""
ENCODER = """\
- **Encoder**: [intfloat/multilingual-e5-small](https://huggingface.co/intfloat/multilingual-e5-small), MIT licence.
  Liang Wang, Nan Yang, Xiaolong Huang, Linjun Yang, Rangan Majumder and Furu Wei: Multilingual E5 Text Embeddings:
  A Technical Report, 2024. Its word embeddings have four bits and were not trained.
- **Languages**: the table that identifies languages was counted in these treebanks and in the [Common
  Voice](https://commonvoice.mozilla.org) text corpus, CC0.
- **These weights** were trained on the treebanks below. It is not settled whether that makes them an adaptation of
  them, so they have the licence [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). The code of
  treefine is under Apache-2.0. The Dutch treebank LassySmall is left out, because its licence file says CC BY-SA
  but links to a non-commercial licence."""


def about_languages(known: About, weights: str, rows: Path) -> About:
    """Return the description with the scores of each treebank, and their means over all treebanks."""
    found = languages_about(read_rows("languages", path=rows, weights=weights))
    languages = {code: LanguageAbout(**each) for code, each in found.items()}
    measured = [each.scores for each in languages.values() if each.scores]
    names = (FROM_TEXT, FROM_WORDS) if measured else ()
    means = {f"mean {name}": round(mean(each[name] for each in measured), 2) for name in names}
    return replace(known, scores=means, languages=languages)


def languages_card(about: About, parser: Parser, rows: Mapping[str, Row], notes: str) -> str:
    """Return the model card; `rows` are the test rows by treebank, `notes` those of the training."""
    facts, settings = treebank_facts(), parser.model.settings
    n_parameters = sum(each.numel() for each in parser.model.parameters())
    front = [
        "library_name: treefine",
        "license: cc-by-sa-4.0",
        f"language: {json.dumps(settings.languages)}",
        f"base_model: {about.encoder}",
        "tags: [dependency-parsing, universal-dependencies]",
    ]
    parts = [
        "\n".join(["---", *front, "---"]),
        f"# multi: {len(settings.languages)} languages, from text to trees",
        "A segmenter finds sentences and words. Then RNGTr, a graph-to-graph transformer (12 layers of width 384, "
        f"{n_parameters / 1e6:.1f} million parameters), predicts tags, features, lemmas and a first tree, and corrects "
        f"them until nothing changes, in at most {parser.max_steps} steps. One model serves all "
        f"{len(parser.model.vocabulary.treebanks)} treebanks; a vector for each carries its habits, and may be left "
        "out. The piece embeddings are stored in four bits, the other weights in eight.",
        '```\ntreefine parse --lang sv "Hunden sover under bordet."\n```',
        "## Accuracy",
        "Measures of the CoNLL 2018 shared task on the test sets, in percent, in int8. Only dev was used for tuning.",
        scores_by_treebank(rows, facts) if rows else "Not measured yet.",
        "## Confidence",
        "Confidences are calibrated on the dev set of each treebank (config.json, `calibration`). docs/languages.md "
        "shows how well they fit the test sets.",
        "## Limits",
        LIMITS,
        "## Licence and attribution",
        ENCODER,
        attribution(facts),
        *(["## Training", notes] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"
