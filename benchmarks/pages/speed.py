"""Generate docs/speed.md: sentences per second compared with other parsers, and what makes parsing faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.markdown import NONE, Lines, folded, table
from benchmarks.peers.answers import FILE, WORDS
from benchmarks.rows import DEVICES, ROWS, Row, device_of, machine_of, missing, newest, origin, read_rows
from benchmarks.speed.curves import shown_figures
from benchmarks.speed.parsers import SPEED, SURE, parsers, time_spent
from benchmarks.speed.trade_offs import stopping
from treefine.drawing.svg import number_text, text_element, text_width, whole_svg

EXACT = "float32"
CURVES = "python -m benchmarks speed_curves"
TRAINING = "python -m benchmarks training_speed --device cuda"
PRECISION, ENCODERS = "python -m benchmarks precision", "python -m benchmarks encoder"
AROUND = "python -m benchmarks around"


def encoder_rows(path: Path = ROWS) -> list[Row]:
    """Return the newest row of the encoder with and without a graph for each device, size, length and precision."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in read_rows("encoder", path=path):
        config = row["config"]
        if config["size"] in ("small", "base"):
            found[device_of(row), config["size"], config["pieces_in_row"], config["precision"]] = row
    return [found[key] for key in sorted(found, key=lambda key: (DEVICES.index(key[0]), key[1] == "base", key[2:]))]


def cost(row: Row, name: str) -> float | None:
    """Return the seconds per word of "system: way", or None if it was not measured."""
    found: Mapping[str, float] = row["result"].get(name, {})
    return 1 / found["words_per_second"] if found else None


def fastest(row: Row, starts: str, way: str) -> str | None:
    """Return the fastest of the systems whose name starts with this, parsing in this way."""
    found: dict[str, float] = {
        name.rpartition(": ")[0]: each["words_per_second"]
        for name, each in row["result"].items()
        if name.startswith(starts) and name.endswith(f": {way}")
    }
    return max(found, key=found.__getitem__, default=None)


PICTURE = "speed-parsers.svg"
PICTURE_TITLE = "Sentences per second on a CPU"
SHOWN = {  # group: name in the picture: system
    "treefine `en`": {"until nothing changes": "treefine", "stop_above 0.935": SURE, "one pass": "treefine, one pass"},
    "other graph-based parsers": {
        "supar, BiLSTM": "supar BiLSTM, untrained, best heads",
        "supar, same encoder size": "supar BERT 12 × 384, untrained, best heads",
        "Stanza, small": "Stanza fast, trained a little, batches of 1000",
        "Stanza, default": "Stanza default, untrained",
    },
    "small transition-based parsers": {"spaCy": "spaCy", "UDPipe 1": "UDPipe 1, beam 5"},
}
SETTINGS = {  # setting: system of `speed`, system of `files`
    "default: refine until nothing changes": ("treefine", "to convergence"),
    "`stop_above=0.935`": (SURE, "stop above 0.935"),
    "one pass: `max_steps=1`": ("treefine, one pass", None),
    "`precision=\"float32\"`": ("treefine, float32", None),
}  # fmt: skip


def gist(path: Path = ROWS) -> str:
    """Return the main numbers, the picture of all parsers on a CPU, and sentences/s by machine and setting."""
    cpu, gpu = newest("speed", "cpu", path=path), newest("files", "cuda", path=path)
    if cpu is None:
        return missing("the speed of parsers", SPEED)
    machines = [f"{machine_of(cpu)}, {cpu['config']['settings']['treefine']['precision']}"]
    if gpu is not None:
        precision, _ = gpu["config"]["settings"]["to convergence"]
        machines.append(f"{machine_of(gpu)}, {precision}")
    lines: Lines = [("setting", *machines)]
    for setting, (on_cpu, on_gpu) in SETTINGS.items():
        speeds = [_per_second(cpu, f"{on_cpu}: {WORDS}")]
        speeds += [_per_second(gpu, on_gpu)] if gpu is not None else []
        lines.append((setting, *speeds))
    notes = (
        f"The table shows sentences/s of the bundled model `{cpu['config']['model']}`, which also predicts the tags; "
        f"the sentences of {cpu['config']['file']} have {cpu['config']['words'] / cpu['config']['sentences']:.0f} "
        "words on average. On the CPU words are in memory"
    )
    if gpu is not None:
        notes += f"; on the GPU {gpu['config']['workers']} worker processes read and write CoNLL-U files"
    lead = f"treefine parses {_per_second(cpu, f'treefine: {WORDS}')} sentences per second on a CPU ({machine_of(cpu)})"
    lead += f", and {_per_second(gpu, 'to convergence')} on a GPU ({machine_of(gpu)})." if gpu is not None else "."
    return f"{lead}\n\n![{PICTURE_TITLE}]({PICTURE})\n\n{table(*lines)}\n\n{notes}."


def _per_second(row: Row | None, name: str | None) -> str:
    found = row["result"].get(name) if row is not None else None
    return f"{found['sentences_per_second']:,.0f}" if found else NONE


def faster(path: Path = ROWS) -> str:
    """Return what a user can do to parse faster, with its effect on speed and accuracy."""
    cpu, gpu = newest("speed", "cpu", path=path), newest("files", "cuda", path=path)
    stops, bits = newest("stopping", "cpu", path=path), newest("precision", "cpu", path=path)
    if cpu is None or gpu is None or stops is None or bits is None:
        return missing("what makes parsing faster", SPEED)
    las = {each["stop_above"]: 100 * each["LAS"] for each in next(iter(stops["result"].values()))}

    def times(name: str) -> float:
        ours, default = (cpu["result"][f"{each}: {WORDS}"] for each in (name, "treefine"))
        return float(ours["sentences_per_second"] / default["sentences_per_second"])

    on_gpu = gpu["result"]["to convergence"]["sentences_per_second"]
    on_cpu = cpu["result"][f"treefine: {FILE}"]["sentences_per_second"]
    int8 = next(iter(bits["result"].values()))["int8"]
    lines: Lines = [
        ("option", "times as fast", "difference in LAS on dev", "note"),
        ("`--device cuda`", f"{on_gpu / on_cpu:,.0f}", "", f"long files, {machine_of(gpu)}; see [GPU](#gpu)"),
        ("`--steps 1`", f"{times('treefine, one pass'):.1f}", f"{las[0.0] - las[1.0]:+.2f}", "no refinement"),
        (
            "`--stop-above 0.935`",
            f"{times(SURE):.1f}",
            f"{las[0.94] - las[1.0]:+.2f}",
            "see [Early stopping](#early-stopping)",
        ),
        (
            "`--precision int8`",
            f"{int8['times_as_fast']:.1f}",
            f"{-100 * int8['LAS_lost']:+.2f}",
            "compared with float32; the default of `en` if the CPU supports it; see [Precision](#precision)",
        ),
    ]
    return f"{table(*lines)}\n\nMeasured on {machine_of(cpu)}, unless noted."


STYLE = "\n" + files("treefine.evaluation.analysis").joinpath("templates/chart.css").read_text(encoding="utf-8")
WIDTH, MARGIN, LETTERS, LINE, BAR = 400, 12, 13, 22, 12  # pixels, as in the other charts
COLORS = ("color0", "color1", "color3")  # of the groups


def draw_speeds(path: Path = ROWS) -> str | None:
    """Draw a bar for each parser on a CPU, by group; None if nothing was measured."""
    row = newest("speed", "cpu", path=path)
    if row is None:
        return None
    groups = {
        group: {
            name: float(row["result"][f"{system}: {WORDS}"]["sentences_per_second"])
            for name, system in systems.items()
            if f"{system}: {WORDS}" in row["result"]
        }
        for group, systems in SHOWN.items()
    }
    speeds = {name: speed for found in groups.values() for name, speed in found.items()}
    left = MARGIN + max(text_width(name, LETTERS) for name in speeds) + 8
    room = WIDTH - MARGIN - left - max(text_width(f"{speed:,.0f}", LETTERS) for speed in speeds.values()) - 6
    parts = [text_element(MARGIN, 22, PICTURE_TITLE, "title")]
    parts.append(text_element(MARGIN, 40, f"{machine_of(row)}; from words to trees", "start"))
    y = 40.0
    for color, (group, found) in zip(COLORS, groups.items(), strict=True):
        if found:
            y += LINE + 6
            parts.append(text_element(MARGIN, y, group.replace("`", ""), "name start"))
        for name, speed in found.items():
            y += LINE
            width = max(1.0, room * speed / max(speeds.values()))
            outline = (
                f"M{number_text(left)} {number_text(y - BAR + 1)}h{number_text(width)}v{BAR}h{number_text(-width)}z"
            )
            parts.append(text_element(left - 8, y, name, "end"))
            parts.append(f'<g class="{color}"><path class="marker" d="{outline}"/></g>')
            parts.append(text_element(left + width + 6, y, f"{speed:,.0f}", "start"))
    return whole_svg("treefine-chart", PICTURE_TITLE, STYLE, parts, width=WIDTH, height=y + MARGIN + 4)


def graph_attention(path: Path = ROWS) -> str:
    """Return the cost of the encoder with a graph, compared with the same encoder without one."""
    rows = encoder_rows(path)
    if not rows:
        return missing("the encoder with and without a graph", ENCODERS)
    heads = ("forward", "forward, replayed", "forward and backward", "memory kept for backward")
    lines: Lines = [("machine", "size", "pieces", "precision", *heads)]
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
    """Return how fast and how accurate each precision is: first with predicted tags, folded with given ones."""
    head = ("machine", "precision", "sentences/s", "times as fast", "LAS on dev", "difference", "trees that differ")
    by_input: dict[str, Lines] = {}
    notes = []
    for device in DEVICES:
        command = PRECISION if device == "cpu" else f"{PRECISION} --device {device}"
        row = newest("precision", device, path=path)
        if row is None:
            notes.append(missing(f"precisions on {device}", command))
            continue
        for given, found in row["result"].items():
            for name, each in found.items():
                cells = (
                    f"{each['sentences_per_second']:,.0f}",
                    f"{each['times_as_fast']:.2f}",
                    f"{100 * each['LAS']:.2f}",
                    f"{0.0 - 100 * each['LAS_lost']:+.3f}",
                    f"{100 * each['sentences_that_differ']:.1f}%",
                )
                by_input.setdefault(given, [head]).append((machine_of(row), name, *cells))
        notes.append(f"{row['config']['sentences']:,} dev sentences. {origin(row, command)}")
    if not by_input:
        return "\n\n".join(notes)
    (_, first), *others = by_input.items()
    details = [f"Input: {given}.\n\n{table(*lines)}" for given, lines in others]
    return "\n\n".join(
        [table(*first), folded("With given tags, and how it was measured", "\n\n".join([*details, *notes]))]
    )


def around_model(path: Path = ROWS) -> str:
    """Return the speed of reading, tokenising and writing by the number of workers."""
    row = newest("around", "cpu", path=path)
    if row is None:
        return missing("reading, tokenising and writing", AROUND)
    lines: Lines = [("workers", "sentences/s", "words/s", "µs per word in the process that runs the model")]
    for workers, found in row["result"]["workers"].items():
        speeds = (f"{found['sentences_per_second']:,}", f"{found['words_per_second']:,}")
        lines.append((workers, *speeds, found.get("microseconds_per_word_here", "")))
    parts = ", ".join(f"{name} {each} µs" for name, each in row["result"]["microseconds_per_word"].items())
    return f"{table(*lines)}\n\nTime per word in one process: {parts}.\n\n{origin(row, AROUND)}"


def training(path: Path = ROWS) -> str:
    """Return the speed of training, compared with the straightforward version and with training without a graph."""
    found = [newest("training_speed", "cuda", path=path, size="base", words=60, sentences=n) for n in (8, 32, 128)]
    rows = [row for row in found if row is not None]
    if not rows:
        return missing("training", TRAINING)
    lines: Lines = [("batch size", "treefine", "straightforward version", "times as fast", "peak memory")]
    costs: Lines = [("batch size", "time", "memory kept for backward")]
    for row in rows:
        result, size = row["result"], row["config"]["sentences"]
        memory = [result.get(f"{name}_peak_megabytes") for name in ("treefine", "straightforward")]
        lines.append(
            (
                size,
                f"{result['treefine_sentences_per_second']:,.0f} sentences/s",
                f"{result['straightforward_sentences_per_second']:,.0f} sentences/s",
                f"{result['straightforward/treefine, time']:.1f}",
                " instead of ".join(f"{each:,.0f} MB" for each in memory if each is not None),
            )
        )
        ratios = (result[f"one step/one step without a graph, {name}"] for name in ("time", "kept memory"))
        costs.append((size, *(f"{ratio:.2f}" for ratio in ratios)))
    details = f"Without a graph = 1.\n\n{table(*costs)}\n\n{origin(rows[-1], TRAINING)}"
    return "\n\n".join([table(*lines), folded("Cost of the graph in training", details)])


SPEED_PAGE: dict[str, Callable[[], str]] = {
    "speed_gist": gist,
    "speed_faster": faster,
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
FIGURES: dict[str, Callable[[], str | None]] = {f"docs/{PICTURE}": draw_speeds}
