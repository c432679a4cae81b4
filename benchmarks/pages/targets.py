"""Generate docs/targets.md: what treefine aims for, what was measured, and why some targets are missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.markdown import Lines, folded, table, verdict
from benchmarks.pages.serving import FUZZ, GROWN_MIB, LOAD, NAMES, OF_OFFLINE, OUTAGES, SOAK, load_rows, not_ok
from benchmarks.pages.speed import CURVES, ENCODERS, EXACT, PRECISION, TRAINING, cost, encoder_rows, fastest
from benchmarks.peers.answers import ALL_PASSES, FILE, WORDS
from benchmarks.rows import DEVICES, ROWS, Row, device_of, machine_of, newest
from benchmarks.speed.parsers import SPEED, SURE, shown_name

H200 = "H200"
PEERS = (
    "Stanza default",
    "Stanza fast, ",
    "Stanza fast over BERT 12 × 384",
    "supar BERT 12 × 384",
)  # each at its fastest
FILES = "python -m benchmarks files --device cuda --copies 40"


class Figure(NamedTuple):
    """One measured number, what it is of, and its row."""

    what: str
    value: float
    row: Row


@dataclass(frozen=True)
class Target:
    """A limit, the measurements that it applies to, and how they were made."""

    name: str
    limit: float
    is_least: bool  # whether the limit is a minimum; otherwise it is a maximum
    unit: str
    figures: Callable[[Path], Iterable[Figure]]
    command: str
    how: str = ""  # what was measured
    reasons: Mapping[str, str] = field(default_factory=dict)  # why it is missed, by a part of a figure's name

    def is_met(self, value: float) -> bool:
        """Return whether a number is on the right side of the limit."""
        return value >= self.limit if self.is_least else value <= self.limit

    @property
    def asked(self) -> str:
        """The limit in words."""
        if not self.limit:
            return "none"
        return f"{'at least' if self.is_least else 'at most'} {_number(self.limit)}{self.unit}"

    def shown(self, value: float) -> str:
        """Return a number with its unit."""
        return f"{_number(value)}{self.unit}"

    def reason(self, figure: Figure) -> str:
        """Return why this figure misses the target, if that is known."""
        known = [text for name, text in self.reasons.items() if name in figure.what]
        return known[0] if known else "the reason is unknown"


def refinement_cost(path: Path) -> Iterator[Figure]:
    """Yield the time of T = 3 divided by that of one pass."""
    for row in _rows("speed", path):
        pairs = (SURE, "treefine, one pass"), ("treefine", "treefine, one pass")
        for ours, one_pass in (*pairs, ("treefine, float32", "treefine, one pass, float32")):
            whole, once = (cost(row, f"{name}: {WORDS}") for name in (ours, one_pass))
            if whole and once:
                yield Figure(f"{_place(row)}, {ours}", whole / once, row)


def around(path: Path) -> Iterator[Figure]:
    """Yield the share of the time from file to file outside the model; on a GPU, the share in which the GPU is idle."""
    for row in _rows("speed", path):
        profile = row["config"]["profile"]
        if row["config"]["device"] == "cuda":
            yield Figure("GPU, share of time in which it is idle", 100 * (1 - profile["busy_share"]), row)
        else:
            alone = sum(each for name, each in profile.items() if name.endswith("alone_seconds"))
            whole = row["result"][f"treefine: {FILE}"]["seconds"]
            yield Figure("CPU, reading, tokenising and writing", 100 * alone / whole, row)


def compared_with_encoder(path: Path) -> Iterator[Figure]:
    """Yield the time from file to file divided by that of the bare encoder passes in the same precision."""
    for row in _rows("speed", path):
        for ours in ("treefine", "treefine, float32"):
            theirs = f"encoder alone, 12 × 384, {row['config']['settings'][ours]['precision']}"
            whole, bare = cost(row, f"{ours}: {FILE}"), cost(row, f"{theirs}: {ALL_PASSES}")
            if whole and bare:
                yield Figure(f"{_place(row)}, {ours} compared with {shown_name(theirs)}", whole / bare, row)


def long_words(path: Path) -> Iterator[Figure]:
    """Yield the cost of a word in sentences of 400 words divided by that in sentences of 40."""
    for row in _rows("speed_curves", path):
        curve = row["result"]["length"]
        found = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        if 400 in found and 40 in found:
            yield Figure(_place(row), found[400] / found[40], row)


def longest(path: Path) -> Iterator[Figure]:
    """Yield the memory for a sentence of 2,000 words on a CPU, in GiB."""
    row = newest("speed_curves", "cpu", path=path)
    if row is not None:
        yield Figure("CPU, peak of the whole process", row["result"]["longest_peak_mib"] / 1024, row)


def compared_with_peers(path: Path) -> Iterator[Figure]:
    """Yield the time of each other parser, at its fastest, divided by treefine's: from words to trees."""
    for row in _rows("speed", path):
        for ours in ("treefine", SURE, "treefine, one pass"):
            own = cost(row, f"{ours}: {WORDS}")
            for peer in PEERS:
                found = fastest(row, peer, WORDS)
                other = cost(row, f"{found}: {WORDS}")
                if own and other:
                    yield Figure(f"{_place(row)}, {found} compared with {ours}", other / own, row)


def on_h200(path: Path) -> Iterator[Figure]:
    """Yield the sentences per second from file to file on an H200."""
    row = newest("files", "cuda", path=path)
    if row is not None and H200 in row["config"]["device"]:
        for ours, found in row["result"].items():
            if "passes_a_sentence" in found:
                yield Figure(f"GPU, {ours}, {row['config']['workers']} workers", found["sentences_per_second"], row)


def training_time(path: Path) -> Iterator[Figure]:
    """Yield how many times as fast as the straightforward version training is."""
    for row in _training(path):
        yield Figure(_batch(row), row["result"]["straightforward/treefine, time"], row)


def training_memory(path: Path) -> Iterator[Figure]:
    """Yield the memory of training divided by that of the straightforward version."""
    for row in _training(path):
        for other in ("straightforward", "straightforward in float32"):
            for kind in ("peak", "kept"):
                ratio = row["result"].get(f"{other}/treefine, {kind} memory")
                if ratio:
                    yield Figure(f"{_batch(row)}, {kind}, compared with {other}", 1 / ratio, row)


def graph_time(path: Path) -> Iterator[Figure]:
    """Yield the time of the encoder with a graph divided by that of the same encoder without one."""
    for row in encoder_rows(path):
        result = row["result"]
        if "engine, median ratio" in result:  # on a GPU: the host does not start the kernels one by one
            yield Figure(f"{_encoder(row)}, replayed", result["engine, median ratio"], row)
        else:
            yield Figure(_encoder(row), result["forward, median ratio"], row)


def graph_memory(path: Path) -> Iterator[Figure]:
    """Yield the memory kept for the backward pass with a graph divided by that without one."""
    for row in encoder_rows(path):
        yield Figure(_encoder(row), row["result"]["kept for backward, ratio"], row)


def precision_loss(path: Path) -> Iterator[Figure]:
    """Yield the LAS that each reduced precision loses on dev, in points."""
    for row in _rows("precision", path):
        for given, found in row["result"].items():
            for name, each in found.items():
                if name != EXACT:
                    yield Figure(f"{_place(row)}, {name}, {given}", 100 * each["LAS_lost"], row)


def server_speed(path: Path) -> Iterator[Figure]:
    """Yield the throughput of the server in percent of the offline parser's."""
    for name, each, row in _loaded(path):
        yield Figure(name, 100 * each["of_offline"], row)


def server_errors(path: Path) -> Iterator[Figure]:
    """Yield how many responses under load were errors."""
    for name, each, row in _loaded(path):
        n_answers = sum(each["answers_by_status"].values())
        yield Figure(f"{name}, of {n_answers:,} responses", not_ok(each), row)


def server_trees(path: Path) -> Iterator[Figure]:
    """Yield how many responses under load differ from the offline parser's."""
    for name, each, row in _loaded(path):
        yield Figure(name, each["other_trees"], row)


def server_memory(path: Path) -> Iterator[Figure]:
    """Yield by how many percent memory grew under load; growth that is within the noise counts as none."""
    for name, each, row in _loaded(path):
        memory = each["memory"]
        grown = max(0.0, memory["grown_percent"]) if memory["grown_mib"] > GROWN_MIB else 0.0
        yield Figure(f"{name}, {memory['grown_mib']:+.1f} MiB", grown, row)


def latency_ratio(path: Path) -> Iterator[Figure]:
    """Yield the 99th percentile of the latency, divided by its median."""
    for name, each, row in _loaded(path):
        latency = each["latency_milliseconds"]
        yield Figure(name, latency["p99"] / latency["p50"], row)


def long_memory(path: Path) -> Iterator[Figure]:
    """Yield by how many percent memory grew under a long mixed load, after its first minutes."""
    for row in filter(None, [newest("soak", "cpu", path=path)]):
        yield Figure(f"{row['config']['minutes']} minutes", row["result"]["grown_percent"], row)


def lost_requests(path: Path) -> Iterator[Figure]:
    """Yield how many requests were lost, answered twice or mixed up in each kind of outage."""
    for name, each, row in _served("outages", path):
        lost = each["unanswered"] + each["other_trees"] + not_ok(each, refusals=False)
        yield Figure(f"{NAMES.get(name, name)}, of {each['requests']:,} requests", lost, row)


def lost_on_shutdown(path: Path) -> Iterator[Figure]:
    """Yield how many requests in progress failed at SIGTERM."""
    for name, each, row in _served("outages", path):
        if name == "SIGTERM":  # `kill -9` must lose requests in progress, and clients ask again
            yield Figure(name, each["lost_under_way"], row)


def fuzzing_faults(path: Path) -> Iterator[Figure]:
    """Yield how many fuzzed requests had a wrong response."""
    for name, each, row in _served("fuzz", path):
        if isinstance(each, dict):
            n_faults = each["faults"] + each["errors_of_the_server"]
            yield Figure(f"{NAMES.get(name, name)}, of {each['requests']:,} requests", n_faults, row)


def _served(benchmark: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any], Row]]:
    row = newest(benchmark, "cpu", path=path)
    if row is not None:
        for name, each in row["result"].items():
            yield name, each, row


def _loaded(path: Path) -> Iterator[tuple[str, Mapping[str, Any], Row]]:
    """Yield each kind of load, for all numbers of clients, on an idle machine."""
    for row in load_rows(path):
        if not row["config"].get("busy_processes"):
            for name, each in row["result"].items():
                yield f"a request has {name}, {row['config']['clients']} clients", each, row


def _encoder(row: Row) -> str:
    config = row["config"]
    shape = "12 × 384" if config["size"] == "small" else "12 × 768"
    return f"{_place(row)}, {shape}, {config['pieces_in_row']} pieces, {config['precision']}"


def _training(path: Path) -> Iterator[Row]:
    for device in reversed(DEVICES):
        sizes = (newest("training_speed", device, path=path, size="base", words=60, sentences=n) for n in (8, 32, 128))
        found = [row for row in sizes if row is not None]
        if found:  # rows of a CPU are shown only if no row of a GPU exists
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


def _number(value: float) -> str:
    """Return a number with the digits that matter.

    >>> _number(20_000.4), _number(1 / 3), _number(4)
    ('20,000', '0.33', '4')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


PARSING = (
    Target("Time of other parsers (treefine = 1)", 1, True, "", compared_with_peers, SPEED,
        "All parse the same words in turn, from words to trees; each other parser at its fastest."),
    Target("Sentences/s on an H200 with 16 cores", 20_000, True, "", on_h200, FILES,
        "From CoNLL-U file to CoNLL-U file, refined until nothing changes."),
    Target("Time with T = 3 (one pass = 1)", 1.5, False, "", refinement_cost, SPEED, "On en_ewt test.", {
        SURE: "a sentence takes 1.4 passes, but later passes also read a graph and tags, and their batches are smaller",
        "treefine": "without initial trees and tags a sentence takes at least two passes, because the second confirms "
        "the first; `stop_above` avoids that",
    }),
    Target("Time outside the model, file to file", 15, False, "%", around, SPEED),
    Target("Time from file to file (bare encoder passes = 1)", 1.3, False, "", compared_with_encoder, SPEED,
        "The encoder has random weights and reads the same batches, which are ready in memory.", {
        "int8": "int8 halves the encoder's time, so the parts that stay in float32 (arcs, labels, tags, attention to "
        "the graph, close sentences scored again) have twice the share",
    }),
    Target("LAS lost on dev by a reduced precision", 0.1, False, "", precision_loss, PRECISION,
        "In points, compared with float32. A negative number is a gain."),
    Target("Cost of a word in sentences of 400 words (40 words = 1)", 2, False, "", long_words, CURVES),
    Target("Memory for a sentence of 2,000 words", 4, False, " GiB", longest, CURVES),
    Target("Forward pass with a graph (without = 1)", 1.15, False, "", graph_time, ENCODERS,
        "The whole encoder with random weights, with a random graph and without one."),
    Target("Memory kept for the backward pass with a graph (without = 1)", 1.3, False, "", graph_memory, ENCODERS),
)  # fmt: skip
TRAINED = (
    Target("Training speed (straightforward version = 1)", 3, True, "", training_time, TRAINING,
        "Base size, 60 words, T = 3, compared with `benchmarks/speed/straightforward.py`: a vector for each pair of "
        "pieces, and a loop over sentences.", {"batches of 8": "with so few sentences both wait for kernels to start"}),
    Target("Training memory (straightforward version = 1)", 1 / 3, False, "", training_memory, TRAINING,
        "The peak, and the part kept for the backward pass.", {
            "peak": "weights, gradients and Adam's state, which both hold, are 1.5 GB of it",
            "kept": "it includes the bfloat16 copies of the weights, which both keep",
        }),
)  # fmt: skip
SERVED = (
    Target("Throughput of the server, in % of `treefine parse`", 100 * OF_OFFLINE, True, "%", server_speed, LOAD,
        "16 and 50 clients on the same, otherwise idle machine.", {
            "a sentence": "a worker parses few sentences at a time, and each operation costs time of its own",
        }),
    Target("99th percentile of the latency (median = 1)", 2, False, "", latency_ratio, LOAD),
    Target("Memory growth after five minutes of mixed requests", 1, False, "%", long_memory, SOAK),
    Target("Memory growth under load", 1, False, "%", server_memory, LOAD,
        f"After a warm-up with the same load. Growth of up to {GROWN_MIB:.0f} MiB counts as noise."),
    Target("Errors under load", 0, False, "", server_errors, LOAD),
    Target("Responses that differ from those of `treefine parse`", 0, False, "", server_trees, LOAD),
    Target("Requests lost, answered twice or mixed up", 0, False, "", lost_requests, OUTAGES,
        "Under overload, next to clients that send bad requests, and while the server is killed and restarted."),
    Target("Requests in progress lost at SIGTERM", 0, False, "", lost_on_shutdown, OUTAGES),
    Target("Fuzzed requests answered with a 500 or not as documented", 0, False, "", fuzzing_faults, FUZZ),
)  # fmt: skip


def targets(asked: Sequence[Target], path: Path = ROWS) -> str:
    """Return one line per target with its worst and best figure; all figures are folded below."""
    lines: Lines = [("target", "limit", "worst", "best", "met")]
    details = []
    for target in asked:
        figures = list(target.figures(path))
        if not figures:
            lines.append((target.name, target.asked, "not measured yet", f"`{target.command}`", ""))
            continue
        values = sorted((figure.value for figure in figures), reverse=not target.is_least)
        n_met = sum(map(target.is_met, values))
        met = f"{n_met} of {len(values)}" if len(values) > 1 else "yes" if n_met else "no"
        shown = met if n_met == len(values) else f"**{met}**"
        lines.append((target.name, target.asked, target.shown(values[0]), target.shown(values[-1]), shown))
        details.append(_details(target, figures))
    return "\n\n".join([table(*lines), *details])


def _details(target: Target, figures: Sequence[Figure]) -> str:
    """Return all figures of a target, folded: how they were measured, where, and why some miss the target."""
    lines: Lines = [("measured", "of", "machine", "")]
    missed: dict[str, list[str]] = {}  # figures by the reason why they miss the target
    for figure in figures:
        is_met = target.is_met(figure.value)
        lines.append((target.shown(figure.value), figure.what, machine_of(figure.row), verdict(is_met)))
        if not is_met:
            missed.setdefault(target.reason(figure), []).append(f"{figure.what} ({target.shown(figure.value)})")
    reasons = [f"- {'; '.join(found)}: {reason}." for reason, found in missed.items()]
    parts = [" ".join(filter(None, (target.how, f"`{target.command}`"))), table(*lines)]
    parts += ["\n".join(["Missed:", "", *reasons])] if reasons else []
    return folded(f"{target.name}: {target.asked}", "\n\n".join(parts))


TARGETS: dict[str, Callable[[], str]] = {
    "targets_parsing": partial(targets, PARSING),
    "targets_training": partial(targets, TRAINED),
    "targets_serving": partial(targets, SERVED),
}
