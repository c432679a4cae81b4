"""Generate calls of every command with random options and files, run them in this process, and check what they did."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import logging
import lzma
import os
import shutil
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple
from unittest import mock

import zstandard
from typer.main import get_command
from typer.models import OptionInfo
from typer.testing import CliRunner

from benchmarks.fuzz import generate
from treefine import TreefineError
from treefine.cli.app import app
from treefine.training.recipe import Recipe

TREEBANK_FORMATS = generate.FORMATS
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".zst": lambda data: bytes(zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}
UNCLEAR = ("Traceback", "Errno", "object at 0x", "NoneType", "Warning:", "Error(")
Words = list[str]


class Fault(NamedTuple):
    """A kind of fault (crash, hang, lost or other) and what happened."""

    kind: str
    message: str


@dataclass
class Call:
    """A call of a command: its arguments, the files in its folder, and its standard input."""

    command: str
    arguments: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    before: list[str] = field(default_factory=list)  # options before the command

    @property
    def line(self) -> list[str]:
        """The words of the command line."""
        options = [part for name, value in self.options.items() for part in ([name, value] if value else [name])]
        return [*self.before, self.command, *options, *(["--"] if self.arguments else []), *self.arguments]


class Option(NamedTuple):
    """An option of a command: its name, the type of its value, and its limits."""

    name: str
    kind: Any
    least: float | None
    most: float | None


def options_of(command: Callable[..., None]) -> list[Option]:
    """Return the options of a command, read from the annotations of its function."""
    found = []
    for hint in typing.get_type_hints(command, include_extras=True).values():
        info = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, OptionInfo)), None)
        if info is not None:
            declared = (info.default, *(info.param_decls or ()))  # in Annotated, the first name is in `default`
            names = [name for each in declared for name in str(each).split("/") if name.startswith("--")]
            found += [Option(name, hint.__origin__, info.min, info.max) for name in names]
    return found


_GROUP = get_command(app)  # building it takes longer than most calls
COMMANDS: dict[str, Callable[..., None]] = {
    str(each.name): each.callback for each in app.registered_commands if each.callback is not None
}
OPTIONS = {name: options_of(command) for name, command in COMMANDS.items()}


def _settings(kind: Any, prefix: str = "") -> Iterator[str]:
    for one in (kind, *typing.get_args(kind)):
        if isinstance(one, type) and is_dataclass(one):
            hints = typing.get_type_hints(one)
            for each in fields(one):
                yield f"{prefix}{each.name}"
                yield from _settings(hints[each.name], f"{prefix}{each.name}.")


SETTINGS = sorted(set(_settings(Recipe)))


class Models:
    """Tiny models in a folder, of every kind, and damaged copies of them."""

    def __init__(self, folder: Path) -> None:
        tiny: Any = import_module("tests.support.tiny")
        segmenter: Any = import_module("tests.support.tiny_segmenter")
        config: Any = import_module("treefine.config")
        parser: Any = import_module("treefine.parsing.parser").Parser
        tags = config.TagSettings("predicted", ("upos", "xpos"))
        self.parsers = {
            "text": parser(tiny.tiny_model(tags=tags), device="cpu", segmenter=segmenter.tiny_segmenter()),
            "refine": parser(tiny.tiny_model(scale=2.0), device="cpu"),
            "biaffine": parser(tiny.tiny_biaffine(), device="cpu"),
        }
        for name, each in self.parsers.items():
            each.save(folder / name)
        self.paths = [str(folder / name) for name in self.parsers]
        self.files = {
            name: {str(path.relative_to(folder / name)): path.read_bytes() for path in (folder / name).rglob("*.*")}
            for name in self.parsers
        }

    def damaged(self, rng: Random) -> dict[str, bytes]:
        """Return the files of a model, with one or two files missing, empty, cut or changed."""
        files = dict(rng.choice(list(self.files.values())))
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
    ARGUMENTS[command](rng, call)
    if command in ("parse", "refine") and rng.random() < 0.6:
        call.options["--model"] = models.paths[0 if command == "parse" else rng.randrange(2)]
    elif command in ("parse", "refine") or (command == "serve" and rng.random() < 0.9):
        call.options["--model"] = _model(rng, call, models)
    share, is_valid = rng.choice((0.0, 0.05, 0.05, 0.1, 0.3)), rng.random() < 0.75
    for option in OPTIONS[command]:
        if rng.random() < share and option.name not in call.options:
            value = _value(rng, option, call, models, is_valid=is_valid)
            if value is not None:
                call.options[option.name] = value
    if "--actors" in call.options and rng.random() < 0.9:
        del call.options["--actors"]  # needs Ray
    if "--projective" in call.options:
        call.options.pop("--k", None)  # the k best projective trees of a long sentence take long
    if "--resume" in call.options and command != "train" and rng.random() < 0.8:
        _add_part(rng, call)
    if command == "train" and not {"--output", "--dry-run"} & call.options.keys():
        call.options["--output"] = "out"
    if command == "analyse" and "--model" in call.options:
        call.arguments = call.arguments[:1]
    if rng.random() < 0.02:
        call.before = ["--debug"]
    if rng.random() < 0.01:
        call.options[rng.choice(("--help", "--no-such-option", "-x"))] = ""
    return call


def _add_part(rng: Random, call: Call) -> None:
    """Add the part file of an earlier run, which has the first sentences of the input and then ends anywhere."""
    call.options["--output"] = "out.conllu"
    data = call.files.get(call.arguments[0], call.stdin) if len(call.arguments) == 1 else b""
    call.files["out.conllu.part"] = (
        data[: rng.randint(0, len(data))] if rng.random() < 0.8 else generate.text_bytes(rng)
    )


def _model(rng: Random, call: Call, models: Models) -> str:
    kind = rng.random()
    if kind < 0.8:
        return rng.choice(models.paths)
    if kind < 0.97:
        call.files |= models.damaged(rng)
        return "model"
    return rng.choice(("", "no-such-model", "owner/name", ".", "in.conllu", "x=", "x=y=z", "\0", "é" * 300))


def _texts(rng: Random, call: Call) -> None:
    """Add inputs of `parse`: texts, files and standard input."""
    for number in range(rng.choice((1, 1, 1, 2))):
        kind = rng.random()
        if kind < 0.05:
            call.arguments.append(rng.choice((".", "*", "in*", "**/*.txt", "no/*.txt", "[it]*.conllu")))
        elif kind < 0.25:
            call.arguments.append(generate.text(rng).replace("\0", ""))
        elif kind < 0.4:
            name, data = generate.compressed(rng, f"text{number}.txt", generate.text_bytes(rng))
            call.files[name] = data
            call.arguments.append(name)
        elif kind < 0.5:
            call.stdin = rng.choice((generate.text_bytes, generate.treebank))(rng)
            call.arguments.append("-")
        else:
            call.arguments += _treebanks(rng, call, 1, f"in{number}")


def _treebanks(rng: Random, call: Call, number: int, stem: str = "in") -> list[str]:
    """Add treebanks to the files of a call, and return their names."""
    names = []
    form = rng.choice((None, "conllu", "conllu"))
    same = generate.treebank(rng, is_tree=rng.random() < 0.7) if rng.random() < 0.6 else None
    for each in range(number):
        name, data = generate.treebank_file(rng, f"{stem}{each}{len(call.files)}", form)
        if same is not None:  # over the same words, so that they can be compared
            name, data = (
                f"{stem}{each}{len(call.files)}.conllu",
                same if rng.random() < 0.7 else _other_heads(rng, same),
            )
        if rng.random() < 0.02:
            name = rng.choice(("no-such-file.conllu", ".", "/", "x" * 300, "\x07.conllu"))
        elif "/" not in name:
            call.files[name] = data
        names.append(name)
    return names


def _other_heads(rng: Random, data: bytes) -> bytes:
    rows = [line.split(b"\t") for line in data.split(b"\n")]
    for row in rows:
        if len(row) == 10 and row[0].isdigit() and rng.random() < 0.3:
            row[6], row[7] = str(rng.randint(0, 3)).encode(), rng.choice((b"obj", b"root", row[7]))
    return b"\n".join(b"\t".join(row) for row in rows)


def _trees(rng: Random, call: Call) -> None:
    call.arguments += _treebanks(rng, call, rng.choice((1, 1, 1, 2)))
    if rng.random() < 0.1:
        call.arguments, call.stdin = ["-"], generate.treebank_file(rng, "in")[1]


def _several(least: int, most: int) -> Callable[[Random, Call], None]:
    def add(rng: Random, call: Call) -> None:
        call.arguments += _treebanks(rng, call, rng.randint(least, most))

    return add


def _annotated(rng: Random, call: Call) -> None:
    """Name files to annotate, most often without a parser: loading one takes long."""
    call.arguments += _treebanks(rng, call, rng.choice((0, 1, 1, 1, 2, 2)))
    call.options["--no-browser"] = ""
    if rng.random() < 0.9:
        call.options["--model"] = "none"


def _conversion(rng: Random, call: Call) -> None:
    call.arguments += [*_treebanks(rng, call, 1), _target(rng)]


def _recipe(rng: Random, call: Call) -> None:
    changes = rng.choice((0, 1, 1, 2, 4))
    call.files["recipe.toml"] = generate.recipe(rng, SETTINGS, changes)
    is_right = rng.random() < 0.7
    for name in ("train.conllu", "dev.conllu"):
        data = generate.treebank(rng, n_sentences=rng.choice((2, 12, 12, 12)), is_tree=is_right)
        call.files[name] = data if is_right else generate.damaged(rng, data)
    call.arguments.append("recipe.toml" if rng.random() < 0.95 else rng.choice(("", "no-such", ".", "train.conllu")))
    if rng.random() < 0.6:
        call.options["--dry-run"] = ""
    call.options["--set"] = rng.choice(("training.epochs=1", f"training.epochs={rng.choice(generate.VALUES)}"))


def _new_recipe(rng: Random, call: Call) -> None:
    _treebanks(rng, call, 2)
    call.arguments.append(rng.choice(("out.toml", "out.toml", "-", "no/such.toml", ".", "in0.conllu", "")))


def _reproduction(rng: Random, call: Call) -> None:
    """Name a folder with some files of a treebank of the paper. Nothing is trained: that takes too long."""
    for split in ("train", "dev", "test"):
        if rng.random() < 0.8:
            code = rng.choice(("tr_imst", "tr_imst", "en_ewt", "ptb"))
            data = generate.treebank(rng, is_tree=True)
            call.files[f"data/{code}/{split}.conllu"] = data if rng.random() < 0.8 else generate.damaged(rng, data)
    call.arguments.append(rng.choice(("data",) * 8 + (".", "no-such-folder", "", "\x07")))
    call.options[rng.choice(("--dry-run", "--list"))] = ""


def _nothing(rng: Random, call: Call) -> None:
    pass


ARGUMENTS: dict[str, Callable[[Random, Call], None]] = {
    "parse": _texts,
    "refine": _trees,
    "annotate": _annotated,
    "models": _nothing,
    "serve": _nothing,
    "new-recipe": _new_recipe,
    "train": _recipe,
    "reproduce": _reproduction,
    "evaluate": _several(2, 2),
    "compare": _several(3, 4),
    "analyse": _several(2, 3),
    "validate": _several(1, 3),
    "convert": _conversion,
    "draw": _several(1, 2),
    "info": _nothing,
}


def _target(rng: Random) -> str:
    ending = rng.choice(
        (".conllu",) * 5 + (".conllx", ".conll09", ".jsonl", ".txt", ".svg", ".html", ".parquet", ".csv", "")
    )
    return (
        rng.choice(("out",) * 12 + ("no/out", "é", "-", ""))
        + ending
        + rng.choice(("",) * 8 + (".gz", ".xz", ".bz2", ".zst", ".zip"))
    )


def _value(rng: Random, option: Option, call: Call, models: Models, *, is_valid: bool) -> str | None:
    """Return a value for an option, or an empty one for a flag; if `is_valid` is not set, it may be any value."""
    files = [name for name in call.files if "/" not in name] or ["no-such-file"]
    if option.name == "--adjudicate" or (option.name == "--output" and call.command != "train"):
        return rng.choice((_target(rng), _target(rng), _target(rng), "folder/", *files))
    if option.name == "--model":
        return _model(rng, call, models)
    if option.name in _PATHS:
        if option.name == "--label-map" and rng.random() < 0.7:
            call.files["map.tsv"] = rng.choice((b"foo\tobj\ndobj\t_\n", b"", b"a\n", generate.text_bytes(rng)))
            return "map.tsv"
        return rng.choice((*files, *models.paths, "empty", "files", "syntr", "biaffine", "bert-base-cased", "x", ""))
    if option.name == "--set":
        return f"{rng.choice(SETTINGS)}={rng.choice((*map(generate.toml, generate.VALUES), 'x', ''))}"
    kind = next(each for each in (*typing.get_args(option.kind), option.kind) if each is not types.NoneType)
    kind = option.kind if typing.get_origin(option.kind) is Literal else kind
    if kind is bool:
        return ""
    valid: Sequence[object] = generate.FORMATS if option.name in ("--format", "--from") else ("x",)
    if option.name in _STRINGS:
        valid = _STRINGS[option.name]
    elif typing.get_origin(kind) is Literal:
        valid = typing.get_args(kind)
    elif kind in (int, float):
        numbers = (1, 2, 3, 20) if kind is int else (0.01, 0.5, 0.9, option.least or 0, option.most or 1)
        valid = [each for each in numbers if (option.most is None or each <= option.most)]
    odd = (-1, 0, 10**6, 0.5, "nan", "x", "", *files, generate.word(rng).replace("\0", ""))
    return str(rng.choice(valid if is_valid or rng.random() < 0.5 or option.name in _BOUNDED else odd))


_PATHS = ("--against", "--initial", "--label-map", "--train", "--dev", "--initial-train", "--initial-dev", "--encoder")
_BOUNDED = ("--host", "--threads", "--samples", "--engine", "--steps", "--k")  # odd values may take long, as asked for
_STRINGS: dict[str, Sequence[str]] = {
    "--device": ("cpu", "cpu", "cpu", "cuda", "cuda:99", "meta", "cpu:1"),
    "--engine": ("local",),  # starting Ray takes seconds; its tests damage its runs
    "--threads": ("1", "1", "2"),
    "--samples": ("1", "10", "100"),
    "--k": ("1", "2", "3"),  # more trees of a long sentence take long: random weights give them almost equal scores
    "--workers": ("0", "1"),
    "--rule": ("conll18", "conllx", "ptb", "conll09"),
    "--encoding": ("utf-8", "UTF8"),  # others change the letters, which are compared with those of the output
    "--sentence": ("1", "2", "s1"),
    "--names": ("a,b", "a,b,c", "a"),
    "--metric": ("LAS", "UAS", "UPOS", "CLAS"),
    "--changes": ("c.html", "c.json", "c.tsv", "c.csv", "out.conllu", "no/c.json"),
    "--host": ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.0.2.1"),
    "--port": ("0", "0", "0", "65535"),
    "--allow-host": ("example.org", "[::1]evil", "", "*"),
    "--allow-origin": ("https://example.org", "*", "", "é"),
    "--root-path": ("/treefine", "x", "", "/é"),
    "--output": ("out", "out", "recipe.toml", ".", "no/such/out", ""),
    "--to": generate.FORMATS,
    "--only": ("tr_imst", "syntr", "multi", "ptb", "no-such-system"),
    "--seeds": ("1", "1,2", "3", "one", ""),
    "--files": ("data", "no-such-folder"),
}


class Outcome(NamedTuple):
    """The result of a command."""

    code: int
    stdout: bytes
    stderr: str
    error: BaseException | None
    files: dict[str, bytes]  # in its folder, afterwards


def run(call: Call, folder: Path) -> Outcome:
    """Run a call in an empty folder, which is the working folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    for name, data in call.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    import torch

    filters, handlers = warnings.filters[:], logging.getLogger().handlers[:]
    # No server runs, no browser opens, and `annotate` does not change how this process ends.
    with mock.patch("uvicorn.Server.run"), mock.patch("webbrowser.open"), mock.patch("signal.signal"):
        with mock.patch("typer.testing._get_command", return_value=_GROUP):
            result = CliRunner().invoke(app, call.line, input=call.stdin)
    warnings.filters[:] = filters  # type: ignore[index]
    torch.set_num_threads(1)
    logging.getLogger().handlers[:] = handlers  # `serve` adds one for a stream that is closed now
    error = None if isinstance(result.exception, SystemExit) else result.exception
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr_bytes.decode("utf-8", "replace"), error, found)


def check(call: Call, outcome: Outcome) -> Fault | None:
    """Return the first fault of an outcome."""
    code, error, stderr = outcome.code, outcome.error, outcome.stderr
    if error is not None and not (call.before and isinstance(error, TreefineError | OSError)):
        shown = "".join(traceback.format_exception(error))
        return Fault("crash", shown[-3000:])
    if error is not None:
        return None
    if code not in (0, 1, 2):
        return Fault("crash", f"exit code {code}: {stderr[-1000:]}")
    unclear = [each for each in UNCLEAR if each in stderr]
    if unclear:
        return Fault("other", f"{unclear[0]} on standard error: {stderr[-2000:]}")
    lines = [line for line in stderr.splitlines() if line.startswith("treefine: ")]
    errors = [line for line in lines if not line.startswith("treefine: warning: ")]
    is_repeated = len(set(errors)) < len(errors) and len(call.arguments) == 1 and call.command != "new-recipe"
    if code == 1 and call.command != "validate" and (not errors or is_repeated):
        return Fault("other", f"exit code 1 without one clear message: {stderr[-2000:]}")
    return _check_files(call, outcome) or (_check_words(call, outcome) if code == 0 else None)


def _targets(call: Call) -> set[str]:
    """Return the names of the files that a call may write."""
    names = {call.options.get(name, "") for name in ("--output", "--changes", "--adjudicate")}
    if call.command in ("convert", "new-recipe"):
        names |= set(call.arguments[-1:])
    return names - {""}


def _check_files(call: Call, outcome: Outcome) -> Fault | None:
    targets = _targets(call)
    for name, data in call.files.items():
        if name not in targets and not name.endswith(".part") and outcome.files.get(name) != data:
            return Fault("lost", f"the input {name} has changed")
    new = outcome.files.keys() - call.files.keys()
    if left := [name for name in new if name.endswith((".tmp", ".lock")) and call.command != "train"]:
        return Fault("other", f"temporary files are left: {left}")
    if outcome.code == 0 and (left := [name for name in new if name.endswith(".part")]):
        return Fault("other", f"part files are left: {left}")
    if outcome.code and call.command != "train":
        is_several = len(call.arguments) > 1 and call.command in ("parse", "refine")
        partial = [name for name in targets & outcome.files.keys() if outcome.files[name] != call.files.get(name)]
        if partial and not is_several:
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


def letters_in(data: bytes) -> str:
    """Return the characters of the tokens of a CoNLL-U file, without spaces."""
    found, covered = [], 0
    for line in data.decode("utf-8-sig", "replace").split("\n"):
        cells = line.rstrip("\r").split("\t")
        if len(cells) == 1:
            covered = 0
        elif "-" in cells[0] and not cells[0].startswith("#"):
            covered = int(cells[0].partition("-")[2])
            found.append(cells[1])
        elif cells[0].isdecimal() and int(cells[0]) > covered:
            found.append(cells[1])
    return letters_of("".join(found))


def letters_of(text: str) -> str:
    """Return the text without spaces and NUL."""
    return "".join(text.replace("\0", "").split())  # NUL may be between two words, see docs/parsing.md


def _unpacked(name: str, data: bytes) -> bytes:
    return UNPACK.get(Path(name).suffix.lower(), bytes)(data)


def _ending(name: str) -> str:
    path = Path(name)
    return (path.with_suffix("") if path.suffix.lower() in UNPACK else path).suffix.lower()


def _check_words(call: Call, outcome: Outcome) -> Fault | None:
    """Compare the words of the inputs with those of the outputs."""
    if call.command not in ("parse", "refine", "convert") or "--help" in call.options or "--review" in call.options:
        return None
    is_convert = call.command == "convert"
    sources = call.arguments[:1] if is_convert else call.arguments
    target = call.arguments[1] if is_convert else call.options.get("--output", "-")
    if "--text" in call.options or target in call.files and "--resume" in call.options:
        return None
    expected: list[Words] = []
    letters = ""
    is_text = False
    for name in sources:
        if name == "." or "*" in name:  # a folder or a pattern
            return None
        kind = call.options.get("--from") or _kind(name, call)
        data = call.stdin if name == "-" else _unpacked(name, call.files[name]) if name in call.files else name.encode()
        if name == "-" and data[:2] in (b"\x1f\x8b", b"\xfd7", b"BZ", b"(\xb5"):
            return None
        if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            data = data.decode("utf-16").encode()
        if kind == "text" and "--from" not in call.options and b"\t" in data:
            return None  # it may be a treebank in a file called .txt
        if kind in TREEBANK_FORMATS or call.command != "parse":
            expected += words_in(data)
            letters += letters_in(data) if kind == "conllu" else letters_of("".join(sum(words_in(data), [])))
        elif kind in ("text", "lines", "words"):
            is_text = True
            letters += letters_of(data.decode("utf-8-sig"))
        else:
            return None
    found = _output(call, outcome, target)
    if found is None:
        return None
    form, data = found
    if form == "json":
        words = [[word["form"] for word in json.loads(line)["words"]] for line in data.decode().splitlines()]
    elif form in TREEBANK_FORMATS:
        words = words_in(data)
    else:
        return None
    if is_text:
        own = letters_in(data) if form == "conllu" and call.options.get("--k", "1") == "1" else None
        if own is not None and own != letters:
            return Fault("lost", f"the output has other characters: {own[:300]!r}, not {letters[:300]!r}")
        return None
    if call.options.get("--k", "1") != "1":
        words, expected = ([each for each, _ in groupby(found)] for found in (words, expected))
    if "--skip" in call.options:
        left = iter(expected)
        is_kept = all(each in left for each in words)
    else:
        is_kept = words == expected
    return None if is_kept else Fault("lost", f"the output has other words: {words!r:.500}, not {expected!r:.500}")


def _kind(name: str, call: Call) -> str | None:
    if name in call.files:
        ending = _ending(name)
        return {".txt": "text", ".conllu": "conllu", ".conllx": "conllx", ".conll09": "conll09"}.get(ending)
    return None if name == "-" else "text"


def _output(call: Call, outcome: Outcome, target: str) -> tuple[str, bytes] | None:
    """Return the format and the bytes of the only output, or None if this check does not know them."""
    form = call.options.get("--to" if call.command == "convert" else "--format")
    if target == "-":
        return form or "conllu", outcome.stdout
    if target not in outcome.files:
        return None
    known = {".conllu": "conllu", ".conllx": "conllx", ".conll09": "conll09", ".jsonl": "json", "": "conllu"}
    form = form or known.get(_ending(target))
    return None if form is None else (form, _unpacked(target, outcome.files[target]))
