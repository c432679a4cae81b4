"""The commands parse and refine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from treefine.cli.completion import complete_model
from treefine.cli.inputs import Input, InputKind, find_inputs
from treefine.cli.outputs import OutputOptions, Shape, plan_jobs
from treefine.config import BATCH_PIECES, Precision, TagSource
from treefine.errors import TreefineError
from treefine.evaluation import tables
from treefine.parsing.options import ParserOptions
from treefine.treebank.constraints import Keep
from treefine.treebank.formats import FORMATS
from treefine.treebank.label_schemes import read_label_map

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser

_Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="A bundled model, a model folder, or OWNER/NAME on a hub.",
        autocompletion=complete_model,
    ),
]
_Output = Annotated[
    str,
    typer.Option(
        "-o", "--output", metavar="OUT", help="The file to write, once it is whole; or a folder, for one file an input."
    ),
]
_Shape = Annotated[
    Shape | None,
    typer.Option(
        "--format",
        help="The output: trees drawn for a terminal, a treebank, a JSON object a line, pictures, or a table with one "
        "row a word. [default: told by the name of OUT; else tree on a terminal, and conllu elsewhere]",
    ),
]
_ShowSteps = Annotated[bool, typer.Option("--show-steps", help="Draw each refinement step, with what it changed.")]
_Confidence = Annotated[
    bool,
    typer.Option(
        "--confidence", help="Write how sure the parser is of a word: Conf=0.97 in MISC, or columns of a table."
    ),
]
_Review = Annotated[
    float | None,
    typer.Option(
        "--review",
        min=0,
        max=1,
        metavar="LIMIT",
        help="List the sentences with a confidence below this, 0 to 1: in place of the trees, or beside -o.",
    ),
]
_Resume = Annotated[bool, typer.Option("--resume", help="Go on with OUT after the last whole sentence in OUT.part.")]
_LabelMap = Annotated[
    str | None,
    typer.Option(
        "--label-map",
        metavar="FILE",
        help="How to read labels of the initial trees: two columns with a tab between them, the label there and the "
        "model's; _ is for none. [default: older names of the model's labels are known]",
    ),
]
_Steps = Annotated[
    int | None, typer.Option("--steps", min=1, help="Refine at most so many times (T). [default: as it was trained]")
]
_StopAbove = Annotated[
    float | None,
    typer.Option(
        "--stop-above",
        min=0,
        max=1,
        metavar="SHARE",
        help="Refine a sentence no further once the model is surer than this, as a share of its words, 0 to 1; with 1 "
        "only where nothing changes any more. [default: the model's own; 1 with --initial or --show-steps]",
    ),
]
_Tags = Annotated[
    TagSource | None,
    typer.Option("--tags", help="Tags to read: the input's, the model's own, or none. [default: as it was trained]"),
]
_Projective = Annotated[bool, typer.Option("--projective", help="Give trees without crossing arcs.")]
_Keep = Annotated[
    Keep,
    typer.Option(
        "--keep",
        help="What of the input stays: what is marked Keep=Arc, Keep=Head or Keep=Label in MISC, every head and label "
        "that is given, or nothing.",
    ),
]
_K = Annotated[int, typer.Option("--k", min=1, help="Give the k best trees of a sentence, and how probable they are.")]
_Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1 … [default: a GPU if there is one]")]
_Precision = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        help="Numbers to run with: float32, or on a CPU int8, on a GPU float16 or bfloat16. [default: the model's own]",
    ),
]
_BatchPieces = Annotated[
    int, typer.Option("--batch-pieces", min=1, help="Sub-words in a batch, padding counted; a CPU takes at most 1,000.")
]
_Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        help="Processes that read and write treebanks beside the model on a GPU; no effect on a CPU. [default: for "
        "long files, two fewer than there are cores, 16 at most]",
    ),
]


def parse_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Texts or files; - is standard input. [default: -]", show_default=False),
    ] = None,
    model: _Model = "en",
    output: _Output = "-",
    shape: _Shape = None,
    kind: Annotated[
        InputKind | None,
        typer.Option(
            "--from",
            help="What the input is: running text, text with one sentence a line, such text with spaces between words, "
            "or a treebank. [default: told by the name of a file, else by its first lines]",
        ),
    ] = None,
    is_text: Annotated[bool, typer.Option("--text", help="All INPUT is text, also what looks like a file.")] = False,
    show_steps: _ShowSteps = False,
    confidence: _Confidence = False,
    review: _Review = None,
    resume: _Resume = False,
    steps: _Steps = None,
    initial: Annotated[
        str | None,
        typer.Option(
            "--initial",
            metavar="empty|DIR|FILE",
            help="Start from nothing, from the trees of another model (SynTr, biaffine), or from those of a file of "
            "the same text. [default: the initial parser in the model's folder, else empty]",
        ),
    ] = None,
    label_map: _LabelMap = None,
    stop_above: _StopAbove = None,
    tags: _Tags = None,
    projective: _Projective = False,
    keep: _Keep = "marked",
    k: _K = 1,
    device: _Device = None,
    precision: _Precision = None,
    batch_pieces: _BatchPieces = BATCH_PIECES,
    workers: _Workers = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option("--engine", help="Parse here, or by workers of Ray, on one machine or many, into a folder OUT/."),
    ] = "local",
    actors: Annotated[
        int | None,
        typer.Option("--actors", min=1, help="Parsers that Ray runs. [default: one a GPU, or without any one a core]"),
    ] = None,
) -> None:
    """Parse texts, or sentences that are cut into words.

    All that a treebank holds stays as it is, but for heads, labels, the enhanced arcs that restate them, and blank tags
    that the model predicts. Heads in the input are not read, but for those that are to be kept.
    """
    inputs = find_inputs(sources or (), kind=kind, is_text=is_text)
    others = tuple(each for each in (initial, label_map) if each and Path(each).is_file())
    wanted = OutputOptions(show_steps, confidence, review, resume, k=k, also_read=others, model=model)
    if show_steps and stop_above is None:
        stop_above = 1.0  # who asks for the steps asks for all of them
    options = ParserOptions(
        initial=initial,
        max_steps=steps,
        stop_above=stop_above,
        tags=tags,
        is_projective=projective,
        keep=keep,
        k=k,
        device=device,
        precision=precision,
        batch_pieces=batch_pieces,
    )
    choice = ModelChoice(model, options, label_map)
    if engine == "ray":
        from treefine.integrations.corpus.run import parse_corpus  # which loads torch

        if not parse_corpus(inputs, output, shape, wanted, choice, actors=actors, workers=workers):
            raise typer.Exit(1)
        return
    if actors is not None:
        raise TreefineError("--actors is for --engine ray.", hint="Leave it out, or add that.")
    _run(inputs, output, shape, wanted, choice, workers=workers)


def refine_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="INITIAL", help="Files of trees; - is standard input. [default: -]", show_default=False),
    ] = None,
    model: _Model = "en",
    output: _Output = "-",
    shape: _Shape = None,
    kind: Annotated[
        Literal["conllu", "conllx", "conll09", "conll09-predicted"] | None,
        typer.Option("--from", help="Format of the input. [default: told by its name, else conllu]"),
    ] = None,
    show_steps: _ShowSteps = False,
    confidence: _Confidence = False,
    review: _Review = None,
    resume: _Resume = False,
    changes: Annotated[
        str | None,
        typer.Option(
            "--changes",
            metavar="FILE",
            help="Write each word whose arc changed, with the confidence in the old and the new one: .html draws the "
            "sentences, .json and .tsv are for programs.",
        ),
    ] = None,
    label_map: _LabelMap = None,
    steps: _Steps = None,
    stop_above: _StopAbove = None,
    tags: _Tags = None,
    projective: _Projective = False,
    keep: _Keep = "marked",
    k: _K = 1,
    device: _Device = None,
    precision: _Precision = None,
    batch_pieces: _BatchPieces = BATCH_PIECES,
) -> None:
    """Correct the trees of files, whichever parser made them.

    A word whose HEAD is blank has no arc in the graph to start from. A label that the model has never seen counts as
    its main type (nsubj of nsubj:outer), or as the newer name of an older label (obj of dobj); if it has none, its arc
    is not read. What was changed is told at the end, on standard error.
    """
    found = find_inputs(sources or (), kind=kind, may_be_text=False)
    inputs = [each if each.kind in FORMATS else replace(each, kind="conllu") for each in found]
    options = ParserOptions(
        initial="given",
        max_steps=steps,
        stop_above=stop_above,
        tags=tags,
        is_projective=projective,
        keep=keep,
        k=k,
        device=device,
        precision=precision,
        batch_pieces=batch_pieces,
    )
    wanted = OutputOptions(show_steps, confidence, review, resume, changes, k, (label_map,) if label_map else (), model)
    _run(inputs, output, shape, wanted, ModelChoice(model, options, label_map), tells_changes=True)


def _run(
    inputs: list[Input],
    output: str,
    shape: Shape | None,
    wanted: OutputOptions,
    choice: ModelChoice,
    *,
    tells_changes: bool = False,
    workers: int | None = None,
) -> None:
    jobs = plan_jobs(inputs, output, shape, wanted)
    if wanted.resume:
        n_all = len(jobs)
        jobs = [job for job in jobs if not job.is_finished]
        if len(jobs) < n_all:
            typer.echo(f"{n_all - len(jobs):,} of {tables.count(n_all, 'output')} finished before", err=True)
        if not jobs:
            return
    from treefine.cli.stream import run_jobs  # which loads numpy and tokenizers

    if not run_jobs(load_parser(choice), jobs, wanted, tells_changes=tells_changes, workers=workers):
        raise typer.Exit(1)


@dataclass(frozen=True)
class ModelChoice:
    """A model, how it parses, and names for the labels of another scheme."""

    model: str
    options: ParserOptions = ParserOptions()
    label_map: str | None = None


def load_parser(choice: ModelChoice) -> Parser:
    """Load the parser; the labels of an initial parse are read by the names that the model has for them."""
    from treefine.parsing.initial import empty, given, renamed  # which load torch
    from treefine.parsing.parser import Parser

    options = choice.options
    if options.initial == "given":
        options = replace(options, initial=given)  # whose labels are renamed below
    parser = Parser.from_pretrained(choice.model, **options.given)
    if parser.initial is empty or isinstance(parser.initial, Parser):
        if choice.label_map is not None:
            raise TreefineError("--label-map is for the trees of a file.", hint="Name one with --initial.")
        return parser
    known = parser.model.vocabulary.labels
    names = None if choice.label_map is None else read_label_map(choice.label_map, known)
    named = renamed(parser.initial, known, names)
    return parser.using(initial=named, max_steps=parser.max_steps, stop_above=parser.stop_above)
