"""Generate calls of every command with random options and files, run them in this process, and check what they did."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
import os
import re
import shutil
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args, get_type_hints
from unittest import mock

import typer
import zstandard
from typer.main import get_command
from typer.testing import CliRunner

from benchmarks.fuzz import generate
from treefine.cli.app import app
from treefine.training.recipe import Recipe

UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".zst": lambda data: bytes(zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}
UNCLEAR = ("Traceback", "Errno", "object at 0x", "NoneType", "Warning:", "Error(")
GROUP: Any = get_command(app)  # building it takes longer than most calls
COMMANDS: dict[str, Any] = dict(GROUP.commands)
Words = list[str]


class Fault(NamedTuple):
    """A kind of fault (crash, lost or other) and what happened."""

    kind: str
    message: str


@dataclass
class Call:
    """A call of a command: its arguments, the files in its folder, and its standard input."""

    command: str
    arguments: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)  # a flag has an empty value
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""

    @property
    def line(self) -> list[str]:
        """The words of the command line."""
        options = [part for name, value in self.options.items() for part in ([name, value] if value else [name])]
        return [self.command, *options, *(["--"] if self.arguments else []), *self.arguments]


def settings_of(kind: Any) -> list[str]:
    """Return the settings in a section of a recipe."""
    kinds = [each for each in (kind, *get_args(kind)) if is_dataclass(each)]
    return [each.name for one in kinds for each in fields(one)]


SETTINGS = [f"{section}.{name}" for section, kind in get_type_hints(Recipe).items() for name in settings_of(kind)]


class Models:
    """Tiny models in a folder, and damaged copies of them."""

    def __init__(self, folder: Path) -> None:
        tiny: Any = import_module("tests.support.tiny")
        segmenter: Any = import_module("tests.support.tiny_segmenter")
        tags: Any = import_module("treefine.config").TagSettings("predicted", ("upos", "xpos"))
        parser: Any = import_module("treefine.parsing.parser").Parser
        self.parsers = {
            "text": parser(tiny.tiny_model(tags=tags), device="cpu", segmenter=segmenter.tiny_segmenter()),
            "refine": parser(tiny.tiny_model(scale=2.0), device="cpu"),
        }
        for name, each in self.parsers.items():
            each.save(folder / name)
        self.paths = [str(folder / name) for name in self.parsers]
        self.files = [
            {str(path.relative_to(root)): path.read_bytes() for path in Path(root).rglob("*.*")} for root in self.paths
        ]

    def damaged(self, rng: Random) -> dict[str, bytes]:
        """Return the files of a model, with one or two files missing, empty, cut or changed."""
        files = dict(rng.choice(self.files))
        for name in rng.sample(sorted(files), rng.randint(1, 2)):
            if rng.random() < 0.2:
                del files[name]
            elif name.endswith(".json") and rng.random() < 0.7:
                files[name] = generate.json_damaged(rng, files[name])
            else:
                files[name] = rng.choice((b"", generate.damaged(rng, files[name])))
        return {f"model/{name}": data for name, data in files.items()}


def call_of(rng: Random, command: str, models: Models) -> Call:
    """Return a random call of a command."""
    call = Call(command)
    ARGUMENTS.get(command, _several(0, 2))(rng, call, models)
    if command in ("parse", "refine", "serve"):
        call.options["--model"] = models.paths[command == "refine"] if rng.random() < 0.6 else _model(rng, call, models)
    share, is_valid = rng.choice((0.0, 0.05, 0.05, 0.1, 0.3)), rng.random() < 0.75
    for option in COMMANDS[command].params:
        name = option.opts[-1]
        is_other = command == "train" and name in ("--from", "--train", "--dev")  # in place of a recipe
        if name.startswith("--") and rng.random() < share / (1 + 9 * is_other) and name not in call.options:
            call.options[name] = "" if option.is_flag else _value(rng, option, call, models, is_valid=is_valid)
    if "--projective" in call.options:
        call.options.pop("--k", None)  # the k best projective trees of a long sentence take long
    if "--resume" in call.options and command in ("parse", "refine") and rng.random() < 0.8:
        call.options["--output"] = "out.conllu"
        data = call.files.get(call.arguments[0], call.stdin) if len(call.arguments) == 1 else b""
        call.files["out.conllu.part"] = rng.choice((data[: rng.randint(0, len(data))], generate.text_bytes(rng)))
    if command == "analyse" and "--model" in call.options:
        call.arguments = call.arguments[:1]
    if rng.random() < 0.01:
        call.options[rng.choice(("--help", "--no-such-option", "-x"))] = ""
    return call


def _model(rng: Random, call: Call, models: Models) -> str:
    kind = rng.random()
    if kind < 0.8:
        return rng.choice(models.paths)
    if kind < 0.97:
        call.files |= models.damaged(rng)
        return "model"
    return rng.choice(("", "no-such-model", "owner/name", ".", "in.conllu", "x=", "x=y=z", "\0", "é" * 300))


def _treebanks(rng: Random, call: Call, number: int) -> list[str]:
    """Add treebanks to the files of a call, most often over the same words, and return their names."""
    names = []
    form = rng.choice((None, "conllu", "conllu"))
    same = generate.treebank(rng, is_tree=rng.random() < 0.7) if rng.random() < 0.6 else None
    for _ in range(number):
        name, data = generate.treebank_file(rng, f"in{len(call.files)}", form)
        if same is not None:
            name = f"in{len(call.files)}.conllu"
            data = same if rng.random() < 0.7 else re.sub(rb"\t[12]\t(det|punct)\t", b"\t1\tobj\t", same)
        if rng.random() < 0.02:
            name = rng.choice(("no-such-file.conllu", ".", "/", "x" * 300, "\x07.conllu"))
        elif "/" not in name:
            call.files[name] = data
        names.append(name)
    return names


Arguments = Callable[[Random, Call, Models], None]


def _several(least: int, most: int) -> Arguments:
    def add(rng: Random, call: Call, _: Models) -> None:
        call.arguments += _treebanks(rng, call, rng.randint(least, most))

    return add


def _texts(rng: Random, call: Call, models: Models) -> None:
    for number in range(rng.choice((1, 1, 1, 2))):
        kind = rng.random()
        if kind < 0.05:
            call.arguments.append(rng.choice((".", "*", "in*", "**/*.txt", "no/*.txt", "[it]*.conllu")))
        elif kind < 0.25:
            call.arguments.append(generate.text(rng).replace("\0", ""))
        elif kind < 0.4:
            name, call.files[name] = generate.compressed(rng, f"text{number}.txt", generate.text_bytes(rng))
            call.arguments.append(name)
        elif kind < 0.5:
            call.stdin = rng.choice((generate.text_bytes, generate.treebank))(rng)
            call.arguments.append("-")
        else:
            call.arguments += _treebanks(rng, call, 1)


def _trees(rng: Random, call: Call, models: Models) -> None:
    if rng.random() < 0.1:
        call.arguments, call.stdin = ["-"], generate.treebank_file(rng, "in")[1]
    else:
        call.arguments += _treebanks(rng, call, rng.choice((1, 1, 1, 2)))


def _annotated(rng: Random, call: Call, models: Models) -> None:
    call.arguments += _treebanks(rng, call, rng.choice((0, 1, 1, 1, 2, 2)))
    call.options |= {"--no-browser": "", "--model": "none"}  # loading a parser takes long


def _conversion(rng: Random, call: Call, models: Models) -> None:
    call.arguments += [*_treebanks(rng, call, 1), _target(rng)]


def _recipe(rng: Random, call: Call, models: Models) -> None:
    """Add a recipe that fine-tunes a tiny model, with a few settings changed or added, and its treebanks."""
    sections: dict[str, dict[str, Any]] = {
        "treebank": {"train": ["train.conllu"], "dev": "dev.conllu"},
        "encoder": {"fine_tune_from": models.paths[1]},
        "refine": {"max_steps": 1},
        "training": {"epochs": 1, "batch_pieces": 300, "checkpoint_minutes": 0},
    }
    changes = rng.choice((0, 0, 0, 1, 2))
    for section, _, name in (rng.choice(SETTINGS).partition(".") for _ in range(changes)):
        sections.setdefault(section, {})[name] = rng.choice(generate.VALUES)
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{name} = {generate.toml(value)}" for name, value in values.items())]
    data = "\n".join([*lines, ""]).encode()
    call.files["recipe.toml"] = generate.damaged(rng, data) if changes and rng.random() < 0.2 else data
    is_right = rng.random() < 0.7
    for name in ("train.conllu", "dev.conllu"):
        data = generate.treebank(rng, n_sentences=rng.choice((2, 12, 12, 12)), is_tree=is_right)
        call.files[name] = data if is_right else generate.damaged(rng, data)
    call.arguments.append("recipe.toml" if rng.random() < 0.95 else rng.choice(("", "no-such", ".", "train.conllu")))
    call.options |= {"--output": "out"} if rng.random() < 0.4 else {"--dry-run": ""}
    odd = f"{rng.choice(SETTINGS)}={rng.choice(('0', 'x', '[]'))}"
    call.options["--set"] = rng.choice(("training.epochs=1", "training.epochs=1", odd))


def _new_recipe(rng: Random, call: Call, models: Models) -> None:
    call.arguments.append(rng.choice(("out.toml", "out.toml", "-", "no/such.toml", ".", "in0.conllu", "")))


def _nothing(rng: Random, call: Call, models: Models) -> None:
    pass


ARGUMENTS: dict[str, Arguments] = {
    "parse": _texts,
    "refine": _trees,
    "annotate": _annotated,
    "models": _nothing,
    "serve": _nothing,
    "info": _nothing,
    "new-recipe": _new_recipe,
    "train": _recipe,
    "evaluate": _several(2, 2),
    "compare": _several(3, 4),
    "analyse": _several(2, 3),
    "validate": _several(1, 3),
    "convert": _conversion,
    "draw": _several(1, 2),
}
_ENDINGS = (".conllu",) * 5 + (".conllx", ".conll09", ".jsonl", ".txt", ".svg", ".html", ".parquet", ".csv", "")
_PATHS = ("--against", "--initial", "--train", "--dev", "--initial-train", "--initial-dev", "--encoder", "--files")
_BOUNDED = ("--host", "--threads", "--samples", "--steps", "--k")  # odd values may take long, as asked for
_STRINGS: dict[str, Sequence[str]] = {
    "--device": ("cpu", "cpu", "cpu", "cuda:99", "meta", "cpu:1"),
    "--threads": ("1", "1", "2"),
    "--samples": ("1", "10", "100"),
    "--k": ("1", "2", "3"),
    "--workers": ("0", "1"),
    "--sentence": ("1", "2", "s1"),
    "--names": ("a,b", "a,b,c", "a"),
    "--metric": ("LAS", "UAS", "UPOS", "CLAS"),
    "--changes": ("c.html", "c.json", "c.tsv", "c.csv", "out.conllu", "no/c.json"),
    "--host": ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.0.2.1"),
    "--port": ("0", "0", "0", "65535"),
    "--allowed-host": ("example.org", "[::1]evil", "", "*"),
    "--allow-origin": ("https://example.org", "*", "", "é"),
    "--root-path": ("/treefine", "x", "", "/é"),
    "--format": generate.FORMATS,
    "--from": generate.FORMATS,
    "--to": generate.FORMATS,
    "--only": ("tr_imst", "no-such-system"),
}


def _target(rng: Random) -> str:
    name, packed = rng.choice(("out",) * 12 + ("no/out", "é", "-", "")), rng.choice(("",) * 8 + (*UNPACK, ".zip"))
    return name + rng.choice(_ENDINGS) + packed


def _value(rng: Random, option: Any, call: Call, models: Models, *, is_valid: bool) -> str:
    """Return a value for an option; if `is_valid` is not set, it may be any value."""
    name, files = option.opts[-1], [each for each in call.files if "/" not in each] or ["no-such-file"]
    if name in ("--adjudicate", "--output"):
        return rng.choice((_target(rng), _target(rng), _target(rng), "folder/", *files))
    if name == "--model":
        return _model(rng, call, models)
    if name == "--label-map":
        call.files["map.tsv"] = rng.choice((b"foo\tobj\ndobj\t_\n", b"", b"a\n", generate.text_bytes(rng)))
        return "map.tsv"
    if name in _PATHS:
        return rng.choice((*files, *models.paths, "empty", "files", "bert-base-cased", "x", ""))
    shown = (option.get_help_record(typer.Context(COMMANDS[call.command])) or ("",))[0]
    choices = re.search(r"[\[<]([\w.-]+(?:\|[\w.-]+)+)[\]>]", shown)
    least, most = option.min, option.max
    if name in _STRINGS:
        valid: Sequence[object] = _STRINGS[name]
    elif choices:
        valid = choices[1].split("|")
    elif least is not None or most is not None:
        valid = [each for each in (1, 2, 3, 0.5, least or 0) if most is None or each <= most]
    else:
        valid = ("x",)
    odd = (-1, 0, 10**6, 0.5, "nan", "x", "", *files, generate.word(rng).replace("\0", ""))
    return str(rng.choice(valid if is_valid or rng.random() < 0.5 or name in _BOUNDED else odd))


class Outcome(NamedTuple):
    """The result of a command."""

    code: int
    stdout: bytes
    stderr: str
    error: BaseException | None
    files: dict[str, bytes]  # in its folder, afterwards


def run(call: Call, folder: Path) -> Outcome:
    """Run a call in an empty folder, which is the working folder."""
    import torch

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    for name, data in call.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    filters, handlers = warnings.filters[:], logging.getLogger().handlers[:]
    # No server runs, no browser opens, and `annotate` does not change how this process ends.
    with mock.patch("uvicorn.Server.run"), mock.patch("webbrowser.open"), mock.patch("signal.signal"):
        with mock.patch("typer.testing._get_command", return_value=GROUP):
            result = CliRunner().invoke(app, call.line, input=call.stdin)
    warnings.filters[:] = filters  # type: ignore[index]
    torch.set_num_threads(1)
    logging.getLogger().handlers[:] = handlers  # `serve` adds one for a stream that is closed now
    error = None if isinstance(result.exception, SystemExit) else result.exception
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr_bytes.decode("utf-8", "replace"), error, files)


def check(call: Call, outcome: Outcome) -> Fault | None:
    """Return the first fault of an outcome."""
    if outcome.error is not None:
        return Fault("crash", "".join(traceback.format_exception(outcome.error))[-3000:])
    stderr = outcome.stderr[-2000:]
    if outcome.code not in (0, 1, 2):
        return Fault("crash", f"exit code {outcome.code}: {stderr}")
    if unclear := [each for each in UNCLEAR if each in outcome.stderr]:
        return Fault("other", f"{unclear[0]} on standard error: {stderr}")
    if outcome.code == 1 and call.command != "validate" and not re.search(r"^treefine: (?!warning)", stderr, re.M):
        return Fault("other", f"exit code 1 without a message: {stderr}")
    return _check_files(call, outcome) or (_check_words(call, outcome) if outcome.code == 0 else None)


def _check_files(call: Call, outcome: Outcome) -> Fault | None:
    """Check that inputs are as they were, and that nothing is left over."""
    targets = {call.options.get(name, "") for name in ("--output", "--changes", "--adjudicate")}
    targets |= set(call.arguments[-1:]) if call.command in ("convert", "new-recipe") else set()
    for name, data in call.files.items():
        if name not in targets and not name.endswith(".part") and outcome.files.get(name) != data:
            return Fault("lost", f"the input {name} has changed")
    if call.command == "train":
        return None
    endings = (".tmp", ".lock") if outcome.code else (".tmp", ".lock", ".part")
    if left := [name for name in outcome.files.keys() - call.files.keys() if name.endswith(endings)]:
        return Fault("other", f"temporary files are left: {left}")
    partial = [name for name in targets & outcome.files.keys() if outcome.files[name] != call.files.get(name)]
    is_several = len(call.arguments) > 1 and call.command in ("parse", "refine")
    if outcome.code and partial and not is_several:
        return Fault("other", f"an output after exit code {outcome.code}: {partial}")
    return None


def words_in(data: bytes) -> list[Words]:
    """Return the words of each sentence of a treebank in any format; a simple reader, independent of treefine's."""
    sentences: list[Words] = [[]]
    for line in data.decode("utf-8-sig", "replace").split("\n"):  # with --skip, some lines may be broken
        cells = line.rstrip("\r").split("\t")
        if len(cells) == 1 and not cells[0].startswith("#"):
            sentences.append([])
        elif len(cells) > 1 and cells[0].isdecimal():
            sentences[-1].append(cells[1])
    return [each for each in sentences if each]


def letters_of(text: str) -> str:
    """Return the text without spaces and NUL."""
    return "".join(text.replace("\0", "").split())  # NUL may be between two words, see docs/parsing.md


def letters_in(data: bytes) -> str:
    """Return the characters of the tokens of a CoNLL-U file, without spaces."""
    forms, covered = [], 0
    for line in data.decode("utf-8-sig", "replace").split("\n"):
        cells = line.rstrip("\r").split("\t")
        if len(cells) == 1:
            covered = 0
        elif re.fullmatch(r"\d+-\d+", cells[0]):
            covered = int(cells[0].partition("-")[2])
            forms.append(cells[1])
        elif cells[0].isdecimal() and int(cells[0]) > covered:
            forms.append(cells[1])
    return letters_of("".join(forms))


def _unpacked(name: str, data: bytes) -> tuple[str, bytes]:
    """Return the ending and the content of a file, without its compression."""
    path = Path(name)
    packed = path.suffix.lower() in UNPACK
    return Path(path.stem if packed else name).suffix.lower(), UNPACK.get(path.suffix.lower(), bytes)(data)


def _check_words(call: Call, outcome: Outcome) -> Fault | None:
    """Compare the words of the inputs with those of the output, where both are plain files."""
    is_conversion = call.command == "convert"
    if call.command not in ("parse", "refine", "convert") or {"--help", "--review", "--text"} & call.options.keys():
        return None
    sources = call.arguments[:1] if is_conversion else call.arguments
    target = call.arguments[1] if is_conversion else call.options.get("--output", "")
    if target not in outcome.files or target in call.files or not all(name in call.files for name in sources):
        return None
    endings, datas = zip(*(_unpacked(name, call.files[name]) for name in sources), strict=True)
    ending, output = _unpacked(target, outcome.files[target])
    form = call.options.get("--to" if is_conversion else "--format") or ending.removeprefix(".")
    if set(endings) == {".txt"} and "--from" not in call.options and form == "conllu" and "--k" not in call.options:
        if any(b"\t" in data for data in datas):
            return None  # it may be a treebank in a file called .txt
        with suppress(UnicodeDecodeError):
            letters, expected = letters_in(output), letters_of("".join(data.decode("utf-8-sig") for data in datas))
            if letters != expected:
                return Fault("lost", f"the output has other characters: {letters!r:.300}, not {expected!r:.300}")
        return None
    if not set(endings) <= {".conllu", ".conllx", ".conll09"} or call.options.get("--from", "conllu") == "text":
        return None
    expected_words = [words for data in datas for words in words_in(data)]
    if form in ("jsonl", "json"):
        words = [[word["form"] for word in json.loads(line)["words"]] for line in output.decode().splitlines()]
    elif form in generate.FORMATS:
        words = words_in(output)
    else:
        return None
    if "--k" in call.options:
        words, expected_words = ([each for each, _ in groupby(some)] for some in (words, expected_words))
    left = iter(expected_words)
    is_kept = all(each in left for each in words) if "--skip" in call.options else words == expected_words
    return (
        None if is_kept else Fault("lost", f"the output has other words: {words!r:.500}, not {expected_words!r:.500}")
    )
