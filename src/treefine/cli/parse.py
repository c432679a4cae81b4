"""The parse and refine commands."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefine import wording
from treefine.cli.inputs import (
    Input,
    InputKind,
    Reading,
    find_inputs,
    find_treebank_inputs,
    read_input,
    treebank_note,
)
from treefine.cli.outputs import Job, OutputOptions, Shape, plan_jobs
from treefine.cli.replacing import ForceOption
from treefine.cli.terminal import Detail, completing, say
from treefine.cli.treebanks import TREEBANKS_HELP, TreebankKindOption
from treefine.config import BATCH_PIECES, Precision, TagChoice
from treefine.cores import thread_count, use_threads
from treefine.errors import TreebankError, TreefineError
from treefine.model.bundled import EXTRA_MODEL, LANGUAGES_OF_MULTI, bundled_models, model_for, unknown_language
from treefine.parsing.options import ParserOptions, Trust
from treefine.treebank.conllu import read_treebank
from treefine.treebank.constraints import Keep
from treefine.treebank.label_schemes import read_label_map
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser

_Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="Bundled model, folder of a model or of a training, or OWNER/NAME on the Hugging Face hub.",
        autocompletion=completing(bundled_models),
        show_default="en, or the model of the language",
    ),
]
_Language = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="CODE",
        help="Language of the input: a code or name such as sv or Swedish, or a treebank such as sv_talbanken. "
        "`treefine models` lists them.",
        show_default="with --model multi, identified from the text",
    ),
]
_Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        help="Output file, or a folder for one output file per input.",
        show_default="standard output",
    ),
]
_Shape = Annotated[
    Shape | None,
    typer.Option(
        "--format",
        help="Output format: tree (drawn as text), conllu (a treebank), json (one object per line), csv, tsv "
        "or parquet (one row per word), svg or html (drawings).",
        show_default="by the extension of OUT; else tree on a terminal, conllu elsewhere",
    ),
]
_ShowSteps = Annotated[bool, typer.Option("--show-steps", help="Draw each refinement step and mark its changes.")]
_Confidence = Annotated[
    bool,
    typer.Option(
        "--confidence", help="Write the confidence of each word: Conf=0.97 in MISC, or extra columns of a table."
    ),
]
_Review = Annotated[
    float | None,
    typer.Option(
        "--review",
        min=0,
        max=1,
        metavar="LIMIT",
        help="List the sentences whose confidence is below LIMIT. The list replaces the trees unless -o names a file.",
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted run after the last complete sentence in OUT.part.")
]
_LabelMap = Annotated[
    str | None,
    typer.Option(
        "--label-map",
        metavar="FILE",
        help="Tab-separated file: a label of the initial trees, then the model's label for it, or _ to ignore its "
        "arcs.",
        show_default="recognise labels of UD 1, Stanford and spaCy",
    ),
]
_Trust = Annotated[
    str | None,
    typer.Option(
        "--trust",
        metavar="auto|WEIGHT",
        help="Weight added to the scores of the initial trees' arcs: 0 adds nothing, 3 suits trees that are better "
        "than the model's, auto estimates it from the first sentences. For several --initial, one for all, or one "
        "each, separated by commas.",
        show_default="auto for given trees",
    ),
]
_TrustFrom = Annotated[
    str | None,
    typer.Option(
        "--trust-from",
        metavar="GOLD",
        help="Fit the weight to a treebank with correct trees of some of the input's sentences.",
    ),
]
_Steps = Annotated[
    int | None,
    typer.Option(
        "--steps", min=1, metavar="N", help="Maximum number of refinement steps (T).", show_default="as in training"
    ),
]
_STOP_ABOVE = (
    "Stop refining a sentence when its mean word confidence exceeds LIMIT. A lower LIMIT is faster and slightly less "
    "accurate; 1 refines until the tree no longer changes."
)
_Tags = Annotated[
    TagChoice | None,
    typer.Option(
        "--tags",
        help="Tags that the model reads: those given in the input, those it predicts, or none. Blank tags, "
        "features and lemmas are filled in, and others stay.",
        show_default="as in training",
    ),
]
_RefinedTags = Annotated[
    TagChoice | None,
    typer.Option(
        "--tags",
        help="Tags to read and to write. given: read and keep those of the input; predicted: predict all and replace "
        "them; none: read none and keep all. Blank tags are always filled in, except with none.",
        show_default="read as in training, and keep those of the input",
    ),
]
_Projective = Annotated[bool, typer.Option("--projective", help="Find the best tree without crossing arcs.")]
_Keep = Annotated[
    Keep,
    typer.Option(
        "--keep",
        help="Arcs of the input to keep: those marked Keep=Arc, Keep=Head or Keep=Label in MISC, all given heads and "
        "labels, or nothing.",
    ),
]
_K = Annotated[
    int, typer.Option("--k", min=1, metavar="K", help="Return the K best trees per sentence, with their probabilities.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DEVICE", help="Device: cpu, cuda, cuda:1, …", show_default="a GPU if there is one"
    ),
]
_Precision = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        help="Precision of the model: float32, int8 (CPU only), float16 or bfloat16 (GPU only).",
        show_default="the model's setting",
    ),
]
_BatchPieces = Annotated[
    int,
    typer.Option(
        "--batch-pieces",
        min=1,
        metavar="N",
        help="Maximum sub-words per batch, including padding; at most 1,000 on a CPU.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Number of CPU threads.",
        show_default="the cores that this process may use, or OMP_NUM_THREADS",
    ),
]
_DEFAULT_MODEL = "en"
_WORKERS = "Processes that read and write treebanks while the GPU parses; no effect on a CPU."


def parse_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Texts, files, folders, or quoted patterns such as 'texts/*.txt'; - is standard input.",
            show_default="standard input",
        ),
    ] = None,
    model: _Model = None,
    language: _Language = None,
    output: _Output = "-",
    shape: _Shape = None,
    kind: Annotated[
        InputKind | None,
        typer.Option(
            "--from",
            help="Input format: text, lines (one sentence per line), words (one sentence per line, a space between "
            "words), or a treebank format.",
            show_default="by the file name, else by the first lines",
        ),
    ] = None,
    is_text: Annotated[
        bool, typer.Option("--text", help="Treat every INPUT as text, even if it looks like a file name.")
    ] = False,
    show_steps: _ShowSteps = False,
    confidence: _Confidence = False,
    review: _Review = None,
    resume: _Resume = False,
    force: ForceOption = False,
    steps: _Steps = None,
    initial: Annotated[
        list[str] | None,
        typer.Option(
            "--initial",
            metavar="empty|DIR|FILE",
            help="Initial trees: none (empty), those of another model (DIR), or those of a file of the same text "
            "(FILE). Can be repeated to combine several parsers.",
            show_default="the initial parser in the model folder, else empty",
        ),
    ] = None,
    label_map: _LabelMap = None,
    trust: _Trust = None,
    trust_from: _TrustFrom = None,
    stop_above: Annotated[
        float | None,
        typer.Option(
            "--stop-above",
            min=0,
            max=1,
            metavar="LIMIT",
            help=_STOP_ABOVE,
            show_default="the model's setting; 1 with --initial or --show-steps",
        ),
    ] = None,
    tags: _Tags = None,
    projective: _Projective = False,
    keep: _Keep = "marked",
    k: _K = 1,
    device: DeviceOption = None,
    precision: _Precision = None,
    batch_pieces: _BatchPieces = BATCH_PIECES,
    threads: ThreadsOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=0,
            metavar="N",
            help=_WORKERS,
            show_default="for long files, the number of cores minus 2, at most 16",
        ),
    ] = None,
) -> None:
    """Parse text, or sentences that are already split into words.

    In a treebank, only heads, labels and the enhanced arcs that repeat them are replaced; the model may also fill in
    blank tags, features and lemmas. Heads in the input are ignored unless --keep selects them.
    """
    model, language = chosen_model(model, language)
    inputs = find_inputs(sources or (), kind=kind, is_text=is_text, output=output)
    if kind is None and (note := treebank_note(inputs)):
        say(note)
    others = tuple(each for each in (*(initial or ()), label_map, trust_from) if each and Path(each).is_file())
    wanted = OutputOptions(show_steps, confidence, review, resume, k=k, also_read=others, model=model, force=force)
    if show_steps and stop_above is None:
        stop_above = 1.0  # show all steps
    options = ParserOptions(
        initial=initial[0] if initial and len(initial) == 1 else initial or None,
        trust=trust_of(trust),
        max_steps=steps,
        stop_above=stop_above,
        tags=tags,
        is_projective=projective,
        keep=keep,
        k=k,
        language=language,
        device=device,
        precision=precision,
        batch_pieces=batch_pieces,
    )
    choice = ModelChoice(model, options, label_map, trust_from)
    _run(inputs, output, shape, wanted, choice, threads=threads, workers=workers)


def refine_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INITIAL",
            help=TREEBANKS_HELP,
            show_default="standard input",
        ),
    ] = None,
    model: _Model = None,
    language: _Language = None,
    output: _Output = "-",
    shape: _Shape = None,
    kind: TreebankKindOption = None,
    show_steps: _ShowSteps = False,
    confidence: _Confidence = False,
    review: _Review = None,
    resume: _Resume = False,
    force: ForceOption = False,
    changes: Annotated[
        str | None,
        typer.Option(
            "--changes",
            metavar="FILE",
            help="Write each changed arc, with the confidence before and after, and each replaced tag to a .html "
            "(drawings), .json or .tsv file.",
        ),
    ] = None,
    label_map: _LabelMap = None,
    trust: _Trust = None,
    trust_from: _TrustFrom = None,
    steps: _Steps = None,
    stop_above: Annotated[
        float | None,
        typer.Option("--stop-above", min=0, max=1, metavar="LIMIT", help=_STOP_ABOVE, show_default="1"),
    ] = None,
    tags: _RefinedTags = None,
    projective: _Projective = False,
    keep: _Keep = "marked",
    k: _K = 1,
    device: DeviceOption = None,
    precision: _Precision = None,
    batch_pieces: _BatchPieces = BATCH_PIECES,
    threads: ThreadsOption = None,
    workers: Annotated[
        int, typer.Option("--workers", min=0, metavar="N", help=f"{_WORKERS} They do not count changes.")
    ] = 0,
) -> None:
    """Correct the trees of any parser.

    A word whose HEAD is blank starts without an arc. A label that the model does not know is read as its main type
    (nsubj:outer as nsubj) or under its newer name (dobj as obj). If neither is known, the model does not read the arc,
    but its head still counts (--trust). A summary of the changes is printed on standard error.
    """
    model, language = chosen_model(model, language)
    inputs = find_treebank_inputs(sources or (), kind=kind, output=output)
    options = ParserOptions(
        initial="given",
        trust=trust_of(trust),
        max_steps=steps,
        stop_above=stop_above,
        tags=tags,
        is_projective=projective,
        keep=keep,
        k=k,
        language=language,
        device=device,
        precision=precision,
        batch_pieces=batch_pieces,
    )
    others = tuple(each for each in (label_map, trust_from) if each)
    wanted = OutputOptions(show_steps, confidence, review, resume, changes, k, others, model, force)
    choice = ModelChoice(model, options, label_map, trust_from)
    _run(inputs, output, shape, wanted, choice, threads=threads, reports_changes=True, workers=workers)


def chosen_model(model: str | None, language: str | None) -> tuple[str, str | None]:
    """Return the model, and the code of the language if one is named; by default the bundled model of the language."""
    if model is not None or not language:
        return model or _DEFAULT_MODEL, language
    found = model_for(language)
    if found is None:
        raise unknown_language(language, LANGUAGES_OF_MULTI, model=EXTRA_MODEL)
    return found


def trust_of(text: str | None) -> Trust | list[Trust] | None:
    """Return the value of --trust: auto, a weight, or several of them, separated by commas."""
    if text is None:
        return None
    found: list[Trust] = []
    for each in text.split(","):
        try:
            found.append("auto" if each.strip() == "auto" else float(each))
        except ValueError:
            message = f"--trust must be auto or a number, not {each.strip()!r}."
            raise TreefineError(message, hint="Write --trust auto, --trust 1.5, or --trust 1.5,0.5.") from None
    return found[0] if len(found) == 1 else found


def _run(
    inputs: list[Input],
    output: str,
    shape: Shape | None,
    wanted: OutputOptions,
    choice: ModelChoice,
    *,
    threads: int | None,
    reports_changes: bool = False,
    workers: int | None = None,
) -> None:
    jobs = plan_jobs(inputs, output, shape, wanted)
    if wanted.resume:
        n_all = len(jobs)
        jobs = [job for job in jobs if not job.is_finished]
        if len(jobs) < n_all:
            say(f"treefine: {n_all - len(jobs):,} of {wording.count(n_all, 'output')} already finished")
        if not jobs:
            return
    from treefine.cli.stream import run_jobs  # loads numpy and tokenizers

    use_threads(threads)
    start = time.monotonic()
    parser = load_parser(choice)
    if choice.trust_from is not None:
        parser = _fitted(parser, inputs, choice.trust_from)
    for line in _about(parser, choice.model, jobs):
        say(line, detail=Detail.VERBOSE)
    say(f"treefine: loaded in {time.monotonic() - start:.1f} s", detail=Detail.VERBOSE)
    if not run_jobs(parser, jobs, wanted, reports_changes=reports_changes, workers=workers):
        raise typer.Exit(1)


def _fitted(parser: Parser, inputs: Sequence[Input], gold: str) -> Parser:
    """Return the parser with its trust fitted to a gold treebank of some of the inputs' sentences."""
    from treefine.parsing.initial import empty  # loads torch

    if parser.options.trust is not None:
        raise TreefineError("--trust and --trust-from cannot be combined.", hint="Leave out one of them.")
    if parser.initial is empty:
        raise TreefineError("--trust-from needs initial trees.", hint="Name a file with --initial FILE.")
    if any(each.text is None and each.name == "-" for each in inputs):
        raise TreefineError("--trust-from cannot read standard input, because it reads the input twice.")

    def sentences() -> Iterator[Sentence]:
        for each in inputs:
            with suppress(TreebankError):  # reported when the input is parsed
                yield from (found.sentence for found in read_input(each, parser, Reading(), count(1)))

    try:
        weights = parser.fit_trust(sentences(), read_treebank(gold))
    except TreefineError as error:
        error.path = error.path or gold
        raise
    say(f"treefine: trust {', '.join(f'{each:.2f}' for each in weights)}, fitted to {gold}")
    return parser.using(trust=weights)


def _about(parser: Parser, model: str, jobs: Sequence[Job]) -> Iterator[str]:
    """Yield the lines that --verbose prints: what is loaded, and how inputs are read and outputs written."""
    where = f"{parser.device}, {parser.precision}, {wording.count(thread_count(), 'thread')}"
    how = f"T = {parser.max_steps}, stop above {parser.stop_above:g}, {parser.tags} tags"
    yield f"treefine: model {model} on {where}; {how}"
    for job in jobs:
        read = ", ".join(f"{each.name or 'text'} ({each.kind or 'format by its first lines'})" for each in job.inputs)
        yield f"treefine: {read} -> {job.target} ({job.shape if job.form is None else job.form.title})"


@dataclass(frozen=True)
class ModelChoice:
    """A model, its parser options, a map from the labels of another scheme, and a treebank to fit the trust to."""

    model: str
    options: ParserOptions = ParserOptions()
    label_map: str | None = None
    trust_from: str | None = None


def load_parser(choice: ModelChoice) -> Parser:
    """Load the parser; translate the labels of its initial parses to those of the model."""
    from treefine.parsing.initial import empty, given, renamed  # loads torch
    from treefine.parsing.parser import Parser

    options = choice.options
    if options.initial == "given":
        options = replace(options, initial=given)  # its labels are renamed below
    parser = Parser.from_pretrained(choice.model, **options.set_options)
    if parser.initial is empty or isinstance(parser.initial, Parser):
        if choice.label_map is not None:
            raise TreefineError("--label-map needs a file of initial trees.", hint="Name one with --initial FILE.")
        if options.trust is not None and parser.initial is empty:
            raise TreefineError("--trust needs initial trees.", hint="Name a file with --initial FILE.")
        return parser
    known = parser.model.vocabulary.labels
    names = None if choice.label_map is None else read_label_map(choice.label_map, known)
    named = renamed(parser.initial, known, names)
    return parser.using(
        initial=named, max_steps=parser.max_steps, stop_above=parser.stop_above, trust=parser.options.trust
    )
