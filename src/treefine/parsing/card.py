"""The model card of a saved model."""

from __future__ import annotations

from treefine.config import BiLSTMSettings
from treefine.network.model import ParserModel

_TAGS = {
    "given": "reads the {columns} tags of its input",
    "predicted": "predicts {columns} tags in its first step and reads them in the later ones",
    "tagger": "predicts {columns} tags beside its trees",
    "none": "reads no tags",
}


def model_card(model: ParserModel, notes: str = "") -> str:
    """What the model is, what it reads, and how to use it, in the hub's Markdown."""
    settings = model.settings
    encoder = settings.encoder
    if isinstance(encoder, BiLSTMSettings):
        kind = "a biaffine parser: a BiLSTM over words and characters"
    else:
        kind = "RNGTr, which refines a graph" if settings.reads_graph else "SynTr, which reads no graph"
        kind += f": a transformer of the {encoder.family} family, {encoder.n_layers} layers of width {encoder.width}"
    source: str = settings.tags.source
    if source == "predicted" and not settings.reads_graph:
        source = "tagger"
    columns = " and ".join(column.upper() for column in settings.tags.columns)
    n_parameters = sum(each.numel() for each in model.parameters())
    command = "treefine parse --model THIS_FOLDER in.conllu -o out.conllu"
    return "\n".join(
        [
            "---",
            "library_name: treefine",
            "tags: [dependency-parsing, universal-dependencies]",
            "---",
            "",
            "# A treefine dependency parser",
            "",
            f"This is {kind}. It has {n_parameters / 1e6:.1f} million parameters,",
            f"knows {len(model.vocabulary.labels)} labels, and {_TAGS[source].format(columns=columns)}.",
            "",
            "```",
            command,
            "```",
            *(["", notes] if notes else []),
            "",
        ]
    )
