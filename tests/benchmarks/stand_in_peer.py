"""A stand-in for a parser in another process: each word attaches to the previous one, or it fails in a chosen way."""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.answers import FILE, WORDS, Built, Way, answer, heads_in_file, words_in_file

HELD = 120_000_000  # bytes of memory of a child process


def build(source, folder=".", head=0, learns=False, has_child=False, ends=False, **_):
    """Build it; `head` is the head of each first word; with `learns` it is trained once."""
    kept, words = Path(folder, "learned"), words_in_file(source)
    has_learned = learns and not kept.exists()
    if has_learned:
        kept.write_text("")
    if ends:
        sys.exit("It was too small a machine.")

    def parse():
        sys.stdout.write("a library that prints\n")
        if has_child:
            hold = f"held = b'x' * {HELD}; import time; time.sleep(0.5)"
            subprocess.run([sys.executable, "-c", hold], check=True)
        return [[head, *range(1, len(each))] for each in words]

    def parse_file():
        path = Path(tempfile.mkdtemp(), "parsed.conllu")
        lines = [
            "".join(f"{number + 1}\tw\t_\t_\t_\t_\t{each}\tdep\t_\t_\n" for number, each in enumerate(heads)) + "\n"
            for heads in parse()
        ]
        path.write_text("".join(lines))
        return path

    more = {
        "settings": lambda: {"precision": "float32", "T": 3, "tags": "predicted"},
        "check": lambda: {"sentences": 2, "LAS, plain": 90.0, "LAS": 90.0, "other trees, percent": 0.0},
        "passes": lambda: [1 + number % 2 for number in range(len(words))],
        "profile": lambda: {
            "profiled_seconds": 2.0,
            "busy_seconds": 1.0,
            "busy_share": 0.5,
            "top_seconds": {"work": 1.0},
            "reading, alone_seconds": 0.01,
        },
    }
    ways = {WORDS: Way(parse, lambda heads: heads), FILE: Way(parse_file, heads_in_file)}
    return Built(ways, parameters=7, has_learned=has_learned, more=more)


if __name__ == "__main__":
    answer(build, ())
