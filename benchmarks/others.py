"""Other parsers' trees, and what refining them gives: train UDPipe and spaCy, then refine their parses of dev.

python -m benchmarks others make --parser udpipe spacy --output parses --jobs 6
python -m benchmarks others refine --model en --parses udpipe=parses/udpipe-dev.conllu spacy=parses/spacy-dev.conllu
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.others_made import make_parses
from benchmarks.others_parsers import OTHERS
from benchmarks.rows import ROWS, TREEBANKS


def measure_others(arguments: Sequence[str]) -> None:
    """The command; `refine` alone needs torch."""
    options = _options(arguments)
    if options.what == "make":
        for name in options.parser:
            OTHERS[name].check()  # before minutes of work
        make_parses({name: OTHERS[name] for name in options.parser}, options)
    else:
        from benchmarks.others_refined import refine_parses

        refine_parses(options)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks others", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="what", required=True)
    make = commands.add_parser("make", help="train other parsers, and write their parses of train and dev")
    make.add_argument("--parser", nargs="+", choices=sorted(OTHERS), default=sorted(OTHERS))
    make.add_argument("--folds", type=int, default=2, help="parts of train, each parsed by a parser of the rest; 2")
    make.add_argument("--output", type=Path, required=True, help="the folder of the parses")
    make.add_argument("--jobs", type=int, default=1, help="trainings at a time, each on one core; 1")
    refine = commands.add_parser("refine", help="refine parses of dev with a model: a row and the trees for each")
    refine.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    refine.add_argument("--parses", nargs="+", required=True, metavar="NAME=PATH", type=_named)
    refine.add_argument("--tags", choices=["given", "predicted", "none"], help="as the model was trained")
    refine.add_argument("--predictions", type=Path, default=ROWS.with_name("predictions"), help="where the trees go")
    refine.add_argument("--device", default=None, help="cpu or cuda")
    for each in (make, refine):
        each.add_argument("--treebank", default="en_ewt", help="a folder of the treebanks; en_ewt")
        each.add_argument("--treebanks", type=Path, default=Path(os.environ.get("TREEBANKS", TREEBANKS)))
        each.add_argument("--sentences", type=int, default=None, help="of each file, the first ones alone; all")
        each.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=PATH, such as udpipe=parses/udpipe-dev.conllu")
    return name, path
