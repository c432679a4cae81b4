"""Measure what a user does with a parser, from running text on: this checkout, an older commit and other parsers."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from benchmarks.accuracy.model_rows import without_tags
from benchmarks.options import MODEL, PYTHON, ROUNDS, ROWS_FILE, TREEBANKS_FOLDER, command, count, option
from benchmarks.peers import answers
from benchmarks.peers.process import Peer
from benchmarks.rows import ROOT, TREEBANKS, model_fields, save_row, torch_fields
from benchmarks.timing import seconds
from treefine import ParserOptions, Sentence, TreefineError, evaluate, read_treebank
from treefine.treebank.raw_text import text_of

SHARED = TREEBANKS.parent
EWT = SHARED / "permissive" / "en_ewt"
DEV = (EWT / "dev.conllu.xz", SHARED / "away/en_gum-dev-r2.16.conllu.xz", SHARED / "away/en_atis-dev-r2.17.conllu.xz")
WRITTEN = re.compile(r"weblog|GUM_(academic|bio|essay|fiction|interview|letter|news|textbook|voyage|whow)_")
LANGUAGES = ("fi_tdt", "fr_sequoia", "it_isdt", "ko_gsd", "sv_talbanken", "tr_imst", "zh_gsd")
N_SHORT, N_ONES = 30, 300  # short texts, one after the other; texts of one sentence
SHORT = 8  # words of a short text
NOW, FAST, BASE = "now", "fast", "768cf25"  # the two settings of this checkout, and the commit they are compared with
COMMAND, MEMORY, ACCURACY = "command", "memory", "accuracy"
PEERS = {  # name: its package and module
    "spaCy": ("spacy", "spacy_parser"),
    "UDPipe 1": ("ufal.udpipe", "udpipe_parser"),
    "Stanza": ("stanza", "stanza_parser"),
}
Unit = Literal["sentences/s", "ms", "CPU s", "s", "MiB"]
Result = dict[str, dict[str, Any]]  # by system


@dataclass(frozen=True)
class UserPath:
    """A path from an input to a result; pages show its title, and its result in this unit."""

    title: str
    unit: Unit = "sentences/s"
    has_fast: bool = True  # whether it is measured with the fast setting too


PATHS = {
    answers.RUNNING: UserPath("running text: `nlp(text)`"),
    answers.RUNNING_PIPE: UserPath("two such texts: `nlp.pipe(texts)`, and each word is read", has_fast=False),
    answers.FIVE: UserPath("documents of five sentences: `nlp.pipe(texts)`"),
    answers.WORDS: UserPath("words: `nlp.parse(sentences)`"),
    answers.TREES: UserPath("words, only trees: `nlp.stream_trees(sentences)`"),
    answers.ONE_PASS: UserPath("words, only trees, not refined: `max_steps=1`", has_fast=False),
    answers.SEGMENT: UserPath("sentences and words: `nlp.segment([text])`", has_fast=False),
    answers.MULTI: UserPath("running text in seven languages with `multi`: `nlp(text)`", has_fast=False),
    answers.SHORT_TEXT: UserPath(f"one text of {SHORT} words: `nlp(text)`", "ms"),
    answers.SHORT_SENTENCE: UserPath(f"one sentence of {SHORT} words: `nlp.parse(words)`", "ms"),
    answers.ONES_PIPE: UserPath(f"{N_ONES} texts of one sentence: `nlp.pipe(texts)`", "CPU s", has_fast=False),
    answers.ONES_LINES: UserPath("… as the lines of one text: `nlp(text)`", "CPU s", has_fast=False),
    answers.ONES_WORDS: UserPath("… as words: `nlp.parse(sentences)`", "CPU s", has_fast=False),
    COMMAND: UserPath("`treefine parse FILE` of the running text, whole process", "s", has_fast=False),
}


@dataclass(frozen=True)
class System:
    """A parser in its own process: the Python that runs it, its module, its code, and the arguments of its `build`."""

    name: str
    python: str
    module: str
    source: Path = ROOT
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether it is treefine."""
        return self.module == "treefine_parser"

    @property
    def folders(self) -> list[Path]:
        """The folders of treefine's code that it imports."""
        return [self.source / "src", self.source / "packages" / "treefine-multi" / "src"]

    def started(self, stack: ExitStack) -> tuple[Peer, dict[str, str]]:
        """Start the process and build the parser; return it with the versions of its packages."""
        print(f"building {self.name}", file=sys.stderr, flush=True)
        peer = Peer(self.name, self.python, f"benchmarks.peers.{self.module}", self.folders)
        stack.callback(peer.close)
        return peer, peer.ask("build", self.arguments)


@command(
    MODEL,
    option("--base", default=BASE, help=f"commit to compare with, or '' for none (default: {BASE})"),
    PYTHON,
    option("--folder", type=Path, help="folder that keeps the trained models of other parsers between runs"),
    option("--paths", nargs="+", default=[""], metavar="PATH", help="only paths whose names contain one of these"),
    count("--sentences", 1000, "number of sentences of the running text"),
    ROUNDS,
    option("--text", type=Path, nargs="+", default=[DEV[1], DEV[0]], help="treebanks with running text"),
    option("--dev", type=Path, nargs="+", default=list(DEV), help="treebanks to measure accuracy on"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_running_text(options: argparse.Namespace) -> None:
    """Measure each path of a user on a CPU, from running text on, and accuracy and memory; write a row per path.

    python -m benchmarks running_text
    python -m benchmarks running_text --python spacy=a/bin/python ufal.udpipe=a/bin/python stanza=b/bin/python

    Each system runs in its own process, with as many threads as by default; they take turns. The commit to compare
    with, its code and its model, comes from a temporary git worktree and runs in the same environment. Other parsers
    run if --python names a Python for them; they are trained for a few minutes or have random weights (see `peers`),
    and --folder keeps them.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        texts, counts = inputs_of(options)
        Path(scratch, "text.txt").write_text(texts["text"], encoding="utf-8")
        Path(scratch, "inputs.json").write_text(json.dumps(texts), encoding="utf-8")
        base = stack.enter_context(worktree(options.base)) if options.base else None
        systems = systems_of(options, scratch, base)
        peers, packages = {}, dict[str, str]()
        for name, system in systems.items():
            peers[name], versions = system.started(stack)
            packages |= versions
        config = {
            **model_fields(options.model),
            **torch_fields("cpu"),
            "packages": packages,
            "base": options.base,
            "text": [shown(path) for path in options.text],
            "words": sum(map(len, texts["words"])),
            "rounds": options.rounds,
        }
        save = partial(save_rows, config, options.rows)
        for name in (each for each in PATHS if counts.get(each) and is_wanted(each, options)):
            taking = {
                system: partial(run_command, each, scratch, options.model)
                if name == COMMAND
                else partial(peers[system].ask, "parse", {"path": name})
                for system, each in systems.items()
                if takes(each, name)
            }
            print(name, file=sys.stderr, flush=True)
            rounds = [{system: work() for system, work in taking.items()} for _ in range(options.rounds)]
            save(name, summed_up(rounds, counts[name], PATHS[name].unit, options.base), sentences=counts[name])
        for path in options.dev if is_wanted(ACCURACY, options) else ():
            save(ACCURACY, accuracy_of(path, peers, systems, scratch), treebank=shown(path))
        if is_wanted(MEMORY, options):
            ours = [each for each in systems.values() if each.is_ours and each.name != FAST]
            save(MEMORY, {each.name: memory_of(each, has_multi=bool(counts[answers.MULTI])) for each in ours})


def save_rows(config: Mapping[str, Any], rows: Path, path: str, result: Result, **more: Any) -> None:
    """Write the row of one path."""
    save_row("running_text", {"path": path, **config, **more}, result, path=rows)


def is_wanted(path: str, options: argparse.Namespace) -> bool:
    """Return whether to measure this path."""
    return any(each in path for each in options.paths)


def takes(system: System, path: str) -> bool:
    """Return whether a system is measured on a path: other parsers only parse running text."""
    return PATHS[path].has_fast or system.name != FAST if system.is_ours else path == answers.RUNNING


def systems_of(options: argparse.Namespace, scratch: Path, base: Path | None) -> dict[str, System]:
    """Return the systems that can be measured, and print which cannot."""
    inputs = {"inputs": str(scratch / "inputs.json"), "model": options.model}
    settings: dict[str, tuple[Path, dict[str, str]]] = {NOW: (ROOT, {})}
    if "speed" in {each.name for each in fields(ParserOptions)}:
        settings[FAST] = ROOT, {"speed": "fast"}
    else:
        print("left out, because Parser has no option `speed` yet: the fast setting")
    if base is not None:
        settings[options.base] = base, {}
    systems = {
        name: System(
            name, sys.executable, "treefine_parser", source, inputs | {"source": str(source), "options": given}
        )
        for name, (source, given) in settings.items()
    }
    pythons = dict(each.split("=", 1) for each in options.python)
    folder = (options.folder or scratch).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, (package, module) in PEERS.items():
        if package in pythons:
            trained = inputs | {"train": str(EWT / "train.conllu.xz"), "folder": str(folder)}
            systems[name] = System(name, pythons[package], module, arguments=trained)
        else:
            print(f"left out, because --python names no Python for {package}: {name}")
    return systems


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check out a commit of this repository in a temporary folder, and remove it afterwards."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, commit)
        added = subprocess.run([*git, "add", "--detach", str(path), commit], capture_output=True, text=True)
        if added.returncode:
            raise TreefineError(f"{commit} cannot be checked out.", hint=added.stderr.strip().splitlines()[-1])
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def inputs_of(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the inputs of all paths, and the number of sentences of each path; 0 if there is no input for it."""
    running = list(islice((each for path in options.text for each in written(path)), options.sentences))
    short = [each for each in read_treebank(options.dev[0]) if len(each) == SHORT][:N_SHORT]
    n_foreign = -(-options.sentences // 100)  # of each language
    files = [options.treebanks / name / "dev.conllu.xz" for name in LANGUAGES]
    foreign = [list(islice(read_treebank(path), n_foreign)) for path in files if path.exists()]
    n_half = -(-len(running) // 10) * 5  # in documents of five sentences, to save time
    texts = {
        "text": text_of(running),
        "five": [text_of(running[start : start + 5]) for start in range(0, n_half, 5)],
        "words": [each.forms for each in running],
        "ones": [text_of([each]) for each in running[:N_ONES]],
        "short_texts": [text_of([each]) for each in short],
        "short_words": [each.forms for each in short],
        "languages": list(map(text_of, foreign)),
    }
    counts = dict.fromkeys(PATHS, len(running)) | {
        answers.RUNNING_PIPE: 2 * len(running),
        answers.FIVE: min(n_half, len(running)),
        answers.MULTI: sum(map(len, foreign)),
        **dict.fromkeys((answers.SHORT_TEXT, answers.SHORT_SENTENCE), len(short)),
        **dict.fromkeys((answers.ONES_PIPE, answers.ONES_LINES, answers.ONES_WORDS), len(texts["ones"])),
    }
    return texts, counts


def written(path: Path) -> list[Sentence]:
    """Return the sentences of a treebank's written genres; all, if their ids name no genre that is known."""
    if not path.exists():
        raise TreefineError(f"{path} does not exist.", hint="Name treebanks with --text and --dev.")
    sentences = list(read_treebank(path))
    return [each for each in sentences if WRITTEN.match(each.sent_id or "")] or sentences


def run_command(system: System, scratch: Path, model: str) -> dict[str, float]:
    """Return the wall seconds of a command that parses the text file."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, system.folders))}
    files = ["parse", str(scratch / "text.txt"), "-o", str(scratch / "parsed.conllu"), "--force", "--model", model]
    arguments = [system.python, "-m", "treefine", *files]
    return {"seconds": seconds(lambda: subprocess.run(arguments, check=True, capture_output=True, env=env))}


def summed_up(rounds: Sequence[Result], n_sentences: int, unit: Unit, base: str) -> Result:
    """Return each system's median times, speed, and the median ratio of the base commit's time to its time."""
    result: Result = {}
    measure = "processor_seconds" if unit == "CPU s" else "seconds"
    for system, first in rounds[0].items():
        found = {name: statistics.median(each[system][name] for each in rounds) for name in first}
        result[system] = {name: round(value, 4) for name, value in found.items()}
        if unit == "sentences/s":
            result[system]["sentences_per_second"] = round(n_sentences / found["seconds"], 1)
        if base in rounds[0]:
            ratio = statistics.median(each[base][measure] / each[system][measure] for each in rounds)
            result[system]["times_as_fast"] = round(ratio, 3)
    return result


def accuracy_of(path: Path, peers: Mapping[str, Peer], systems: Mapping[str, System], scratch: Path) -> Result:
    """Return the scores of each system on a treebank, and the passes of treefine; other parsers only read its text."""
    gold = list(read_treebank(path))
    bare, text = scratch / "bare.conllu", text_of(gold)
    bare.write_text("".join(without_tags(each).to_conllu() for each in gold), encoding="utf-8")
    result: Result = {}
    for name, peer in peers.items():
        print(f"{ACCURACY} of {name} on {shown(path)}", file=sys.stderr, flush=True)
        if systems[name].is_ours:
            result[name] = peer.ask("accuracy", {"gold": str(path), "bare": str(bare), "text": text})
        elif parsed := peer.ask("conllu", {"text": text}):  # none from random weights
            scores = evaluate(gold, list(read_treebank(BytesIO(parsed.encode()))))
            result[name] = {
                f"{each}, raw text": round(100 * scores[each].f1, 3) for each in ("Tokens", "Sentences", "LAS")
            }
    return result


def memory_of(system: System, *, has_multi: bool) -> dict[str, float]:
    """Return the peak memory of a new process that has parsed the text, and with `multi` the texts in its languages."""
    with ExitStack() as stack:
        peer, _ = system.started(stack)
        peer.ask("parse", {"path": answers.RUNNING})
        result: dict[str, float] = {"en_mib": round(peer.peak())}
        if has_multi:
            peer.ask("parse", {"path": answers.MULTI})
            result["en_and_multi_mib"] = round(peer.peak())
    return result


def shown(path: Path) -> str:
    """Return the name of a treebank file.

    >>> shown(Path("permissive/en_ewt/dev.conllu.xz")), shown(Path("away/en_gum-dev-r2.16.conllu.xz"))
    ('en_ewt dev', 'en_gum-dev-r2.16')
    """
    name = path.name.removesuffix(".conllu.xz")
    return name if "-" in name else f"{path.parent.name} {name}"
