"""The bars and the other tables of docs/speed.md that no single benchmark has.

A bar is what parsing or training is held to, with what was measured of it. Reasons for missed ones stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.markdown import Lines, table
from benchmarks.peers.answers import ALL_PASSES, FILE, WORDS
from benchmarks.rows import DEVICES, ROWS, Row, device_of, machine_of, missing, newest, origin, read_rows
from benchmarks.speed.curves import shown_figures
from benchmarks.speed.parsers import SPEED, SURE, parsers, time_spent
from benchmarks.speed.trade_offs import stopping


def encoder_rows(path: Path = ROWS) -> list[Row]:
    """The newest rows of the encoder with and without a graph: of each device, size, length and precision."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in read_rows("encoder", path=path):
        config = row["config"]
        if config["size"] in ("small", "base"):
            found[device_of(row), config["size"], config["pieces_in_row"], config["precision"]] = row
    return [found[key] for key in sorted(found, key=lambda key: (DEVICES.index(key[0]), key[1] == "base", key[2:]))]


def cost(row: Row, name: str) -> float | None:
    """The seconds a word of a system in one of its ways, as "system: way"; None where it was not measured."""
    found: Mapping[str, float] = row["result"].get(name, {})
    return 1 / found["words_per_second"] if found else None


def fastest(row: Row, starts: str, way: str) -> str | None:
    """The fastest of the systems whose name starts so, in this way."""
    found: dict[str, float] = {
        name.rpartition(": ")[0]: each["words_per_second"]
        for name, each in row["result"].items()
        if name.startswith(starts) and name.endswith(f": {way}")
    }
    return max(found, key=found.__getitem__, default=None)


H200, EXACT = "H200", "float32"
PEERS = (
    "Stanza default",
    "Stanza fast, ",
    "Stanza fast over BERT 12 × 384",
    "supar BERT 12 × 384",
)  # each at its fastest
CURVES = "python -m benchmarks speed_curves"
TRAINING = "python -m benchmarks training_speed --device cuda"
PRECISION, ENCODERS = "python -m benchmarks precision", "python -m benchmarks encoder"


class Figure(NamedTuple):
    """One number that was measured: of what, and in which row."""

    what: str
    value: float
    row: Row


@dataclass(frozen=True)
class Bar:
    """What is asked for."""

    name: str
    limit: float
    is_least: bool  # whether the number is to be as large, or else as small
    unit: str
    figures: Callable[[Path], Iterable[Figure]]
    command: str
    reasons: Mapping[str, str] = field(default_factory=dict)  # why it is missed, by what stands in a figure's name

    def is_met(self, value: float) -> bool:
        """Whether a number is on the right side of the bar."""
        return value >= self.limit if self.is_least else value <= self.limit

    @property
    def asked(self) -> str:
        """The bar in words."""
        return f"{'at least' if self.is_least else 'at most'} {_number(self.limit)}{self.unit}"

    def reason(self, figure: Figure) -> str:
        """Why this figure misses the bar, as far as that is known."""
        known = [text for name, text in self.reasons.items() if name in figure.what]
        return known[0] if known else "the reason is not found yet"


def refinement_cost(path: Path) -> Iterator[Figure]:
    """T = 3 beside one pass."""
    for row in _rows("speed", path):
        pairs = (SURE, "treefine, one pass"), ("treefine", "treefine, one pass")
        for ours, one_pass in (*pairs, ("treefine, float32", "treefine, one pass, float32")):
            whole, once = (cost(row, f"{name}: {WORDS}") for name in (ours, one_pass))
            if whole and once:
                yield Figure(f"{_place(row)}, {ours}", whole / once, row)


def around(path: Path) -> Iterator[Figure]:
    """What is not the model, of the time from file to file: on a GPU all the time in which it has nothing to do."""
    for row in _rows("speed", path):
        profile = row["config"]["profile"]
        if row["config"]["device"] == "cuda":
            yield Figure("GPU, share of time in which it is idle", 100 * (1 - profile["busy_share"]), row)
        else:
            alone = sum(each for name, each in profile.items() if name.endswith("alone_seconds"))
            whole = row["result"][f"treefine: {FILE}"]["seconds"]
            yield Figure("CPU, reading, tokenising and writing alone", 100 * alone / whole, row)


def beside_encoder(path: Path) -> Iterator[Figure]:
    """File to file beside the bare encoder passes in the same precision."""
    for row in _rows("speed", path):
        for ours in ("treefine", "treefine, float32"):
            theirs = f"encoder alone, 12 × 384, {row['config']['settings'][ours]['precision']}"
            whole, bare = cost(row, f"{ours}: {FILE}"), cost(row, f"{theirs}: {ALL_PASSES}")
            if whole and bare:
                yield Figure(f"{_place(row)}, {ours} beside {theirs}", whole / bare, row)


def long_words(path: Path) -> Iterator[Figure]:
    """Cost of a word at 400 words beside that at 40."""
    for row in _rows("speed_curves", path):
        curve = row["result"]["length"]
        found = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        if 400 in found and 40 in found:
            yield Figure(_place(row), found[400] / found[40], row)


def longest(path: Path) -> Iterator[Figure]:
    """Memory for a sentence of 2,000 words on a CPU."""
    row = newest("speed_curves", "cpu", path=path)
    if row is not None:
        yield Figure("CPU, peak of the whole process", row["result"]["longest_peak_mib"] / 1024, row)


def beside_peers(path: Path) -> Iterator[Figure]:
    """How many times as long others take as ours, each at its fastest: from words to trees."""
    for row in _rows("speed", path):
        for ours in ("treefine", SURE, "treefine, one pass"):
            own = cost(row, f"{ours}: {WORDS}")
            for peer in PEERS:
                found = fastest(row, peer, WORDS)
                other = cost(row, f"{found}: {WORDS}")
                if own and other:
                    yield Figure(f"{_place(row)}, {found} beside {ours}", other / own, row)


def on_h200(path: Path) -> Iterator[Figure]:
    """Sentences a second from file to file on the large card."""
    row = newest("files", "cuda", path=path)
    if row is not None and H200 in row["config"]["device"]:
        for ours, found in row["result"].items():
            if "passes_a_sentence" in found:
                yield Figure(f"GPU, {ours}, {row['config']['workers']} workers", found["sentences_per_second"], row)


def training_time(path: Path) -> Iterator[Figure]:
    """Training beside the straightforward version."""
    for row in _training(path):
        yield Figure(_batch(row), row["result"]["straightforward/treefine, time"], row)


def training_memory(path: Path) -> Iterator[Figure]:
    """Its memory, of which ours is to take a third."""
    for row in _training(path):
        for beside in ("straightforward", "straightforward in float32"):
            for kind in ("peak", "kept"):
                ratio = row["result"].get(f"{beside}/treefine, {kind} memory")
                if ratio:
                    yield Figure(f"{_batch(row)}, {kind}, beside {beside}", 1 / ratio, row)


def graph_time(path: Path) -> Iterator[Figure]:
    """The encoder with a graph beside the same one without."""
    for row in encoder_rows(path):
        result = row["result"]
        if "engine, median ratio" in result:  # as a GPU parses: kernels that no host has to start one by one
            yield Figure(f"{_encoder(row)}, replayed", result["engine, median ratio"], row)
        else:
            yield Figure(_encoder(row), result["forward, median ratio"], row)


def graph_memory(path: Path) -> Iterator[Figure]:
    """What it keeps for the way back beside the same one without."""
    for row in encoder_rows(path):
        yield Figure(_encoder(row), row["result"]["kept for backward, ratio"], row)


def _encoder(row: Row) -> str:
    config = row["config"]
    shape = "12 × 384" if config["size"] == "small" else "12 × 768"
    return f"{_place(row)}, {shape}, {config['pieces_in_row']} pieces, {config['precision']}"


def precision_loss(path: Path) -> Iterator[Figure]:
    """LAS that each reduced precision loses on dev, in points."""
    for row in _rows("precision", path):
        for given, found in row["result"].items():
            for name, each in found.items():
                if name != EXACT:
                    yield Figure(f"{_place(row)}, {name}, {given}", 100 * each["LAS_lost"], row)


def _training(path: Path) -> Iterator[Row]:
    for device in reversed(DEVICES):
        sizes = (newest("training_speed", device, path=path, size="base", words=60, sentences=n) for n in (8, 32, 128))
        found = [row for row in sizes if row is not None]
        if found:  # a GPU's alone, where there are some
            yield from found
            return


def _batch(row: Row) -> str:
    return f"{_place(row)}, batches of {row['config']['sentences']}"


def _rows(benchmark: str, path: Path) -> Iterator[Row]:
    for device in DEVICES:
        row = newest(benchmark, device, path=path)
        if row is not None:
            yield row


def _place(row: Row) -> str:
    return "CPU" if device_of(row) == "cpu" else "GPU"


BARS = (
    Bar("Graph attention, forward, the same encoder without a graph = 1", 1.15, False, "", graph_time, ENCODERS),
    Bar("Its memory kept for backward, without a graph = 1", 1.3, False, "", graph_memory, ENCODERS),
    Bar("Cost of T = 3 on en_ewt, one pass = 1", 1.5, False, "", refinement_cost, SPEED, {
        SURE: "1.4 passes a sentence and 1.5 a piece (see below), but the later ones read a graph and tags, and what "
        "goes on makes smaller batches",
        "treefine": "from an empty graph and with tags of its own a sentence takes two passes at least, for the second "
        "confirms the first; `stop_above` is what can be done without",
    }),
    Bar("Around the model, of the time from file to file", 15, False, " %", around, SPEED),
    Bar("File to file, bare encoder passes on the same batches = 1", 1.3, False, "", beside_encoder, SPEED, {
        "int8": "eight bits halve the encoder's time, and what stays in float32 (arcs, labels, tags, attention to the "
        "graph, close sentences scored again) then weighs twice as much",
    }),
    Bar("LAS lost on dev by a reduced precision", 0.1, False, "", precision_loss, PRECISION),
    Bar("Cost of a word in sentences of 400 words, of 40 words = 1", 2, False, "", long_words, CURVES),
    Bar("Memory for a sentence of 2,000 words", 4, False, " GiB", longest, CURVES),
    Bar("Training at base size, 60 words: times the speed of a straightforward version", 3, True, "", training_time,
        TRAINING, {"batches of 8": "with so few sentences both wait for kernels to be started"}),
    Bar("Its memory, the straightforward version's = 1", 1 / 3, False, "", training_memory,
        TRAINING, {
            "peak": "weights, gradients and Adam's state, which both hold, are 1.5 GB of it",
            "kept": "the copies of the weights in bfloat16, which both keep, are counted",
        }),
    Bar("Time of other parsers, ours = 1", 1, True, "", beside_peers, SPEED),
    Bar("Sentences a second on an H200 with 16 cores, file to file, refined to convergence", 20_000, True, "", on_h200,
        "python -m benchmarks files --device cuda --copies 40"),
)  # fmt: skip


def bars(path: Path = ROWS, asked: Sequence[Bar] = BARS) -> str:
    """Each bar with what was measured, where, and whether it is met; then why those are missed that are."""
    lines: Lines = [("bar", "asked for", "measured", "of", "on", "")]
    missed = []
    for bar in asked:
        figures = list(bar.figures(path))
        for figure in figures:
            is_met = bar.is_met(figure.value)
            shown = f"{_number(figure.value)}{bar.unit}"
            verdict = "met" if is_met else "**missed**"
            lines.append((bar.name, bar.asked, shown, figure.what, machine_of(figure.row), verdict))
            if not is_met:
                missed.append(
                    f"- {bar.name}: {figure.what}, {shown} where {bar.asked} is asked for: {bar.reason(figure)}."
                )
        if not figures:
            lines.append((bar.name, bar.asked, "not measured yet", f"`{bar.command}`", "", ""))
    told = "\n".join(["Missed:", "", *missed]) if missed else "No bar that was measured is missed."
    return f"{table(*lines)}\n\n{told}"


def _number(value: float) -> str:
    """A number with as many digits as are of use.

    >>> _number(20_000.4), _number(1 / 3), _number(4)
    ('20,000', '0.33', '4')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


AROUND = "python -m benchmarks around"


def graph_attention(path: Path = ROWS) -> str:
    """The encoder with a graph beside the same one without."""
    rows = encoder_rows(path)
    if not rows:
        return missing("the encoder with and without a graph", ENCODERS)
    heads = ("forward", "replayed by the engine", "forward and backward", "kept for backward")
    lines: Lines = [("on", "size", "pieces", "precision", *heads)]
    ratios = (
        "forward, median ratio",
        "engine, median ratio",
        "forward and backward, median ratio",
        "kept for backward, ratio",
    )
    for row in rows:
        config, result = row["config"], row["result"]
        shown = (f"{result[name]:.2f}" if name in result else "" for name in ratios)
        lines.append((machine_of(row), config["size"], config["pieces_in_row"], config["precision"], *shown))
    return f"{table(*lines)}\n\nWithout a graph = 1. {origin(rows[-1], ENCODERS)}"


def precisions(path: Path = ROWS) -> str:
    """What each precision loses on dev and gains in speed, by device."""
    parts = []
    for device in DEVICES:
        command = PRECISION if device == "cpu" else f"{PRECISION} --device {device}"
        row = newest("precision", device, path=path)
        if row is None:
            parts.append(missing(f"precisions on {device}", command))
            continue
        lines: Lines = [("given", "precision", "LAS", "lost", "other trees", "sentences/s", "times as fast")]
        for given, found in row["result"].items():
            for name, each in found.items():
                lines.append(
                    (
                        given,
                        name,
                        f"{100 * each['LAS']:.2f}",
                        f"{100 * each['LAS_lost']:+.3f}",
                        f"{100 * each['sentences_that_differ']:.1f} %",
                        f"{each['sentences_per_second']:,.0f}",
                        f"{each['times_as_fast']:.2f}",
                    )
                )
        parts.append(f"{table(*lines)}\n\n{row['config']['sentences']:,} dev sentences. {origin(row, command)}")
    return "\n\n".join(parts)


def around_model(path: Path = ROWS) -> str:
    """Reading, tokenising and writing, by the number of workers."""
    row = newest("around", "cpu", path=path)
    if row is None:
        return missing("reading, tokenising and writing", AROUND)
    lines: Lines = [("workers", "sentences/s", "words/s", "µs a word in the process that runs the model")]
    for workers, found in row["result"]["workers"].items():
        speeds = (f"{found['sentences_per_second']:,}", f"{found['words_per_second']:,}")
        lines.append((workers, *speeds, found.get("microseconds_per_word_here", "")))
    parts = ", ".join(f"{name} {each} µs" for name, each in row["result"]["microseconds_per_word"].items())
    return f"{table(*lines)}\n\nA word alone in one process: {parts}.\n\n{origin(row, AROUND)}"


def training(path: Path = ROWS) -> str:
    """Training beside the straightforward version and beside no graph."""
    found = [newest("training_speed", "cuda", path=path, size="base", words=60, sentences=n) for n in (8, 32, 128)]
    rows = [row for row in found if row is not None]
    if not rows:
        return missing("training", TRAINING)
    head = ("sentences a batch", "treefine", "straightforward", "times as fast", "peak memory")
    lines: Lines = [(*head, "time, no graph = 1", "kept for backward, no graph = 1")]
    for row in rows:
        result = row["result"]
        memory = [result.get(f"{name}_peak_megabytes") for name in ("treefine", "straightforward")]
        lines.append(
            (
                row["config"]["sentences"],
                f"{result['treefine_sentences_per_second']:,.0f} sentences/s",
                f"{result['straightforward_sentences_per_second']:,.0f} sentences/s",
                f"{result['straightforward/treefine, time']:.1f}",
                " beside ".join(f"{each:,.0f} MB" for each in memory if each is not None),
                f"{result['one step/one step without a graph, time']:.2f}",
                f"{result['one step/one step without a graph, kept memory']:.2f}",
            )
        )
    return f"{table(*lines)}\n\n{origin(rows[-1], TRAINING)}"


SPEED_PAGE: dict[str, Callable[[], str]] = {
    "speed_bars": bars,
    "speed_cpu": partial(parsers, "cpu"),
    "speed_cuda": partial(parsers, "cuda"),
    "speed_time": time_spent,
    "speed_graph": graph_attention,
    "speed_precision": precisions,
    "speed_stopping": stopping,
    "speed_around": around_model,
    "speed_training": training,
    "speed_figures": partial(shown_figures, CURVES),
}
