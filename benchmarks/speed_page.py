"""The tables of docs/speed.md: parsers beside each other, and where the time goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.markdown import table
from benchmarks.rows import ROWS
from benchmarks.speed_bars import CURVES, ENCODER, PRECISION, SPEED, bars
from benchmarks.speed_figures import shown_figures
from benchmarks.speed_rows import DEVICES, Row, encoder_rows, machine_of, missing, newest, origin
from benchmarks.stopping import stopping

TRAINING = "python -m benchmarks training_speed --device cuda"
AROUND = "python -m benchmarks around"
PART, WHOLE = "_seconds", ("seconds", "processor_seconds")  # names of times in a row
Lines = list[tuple[object, ...]]


def parsers(device: str, path: Path = ROWS) -> str:
    """All systems of a run: sentences and words a second, time beside ours, and memory."""
    command = SPEED if device == "cpu" else f"{SPEED} --device {device}"
    row = newest("speed", device, path=path)
    return missing("parsers beside each other", command) if row is None else parsers_of(row, command)


def parsers_of(row: Row, command: str) -> str:
    """The same of one row."""
    config = row["config"]
    lines: Lines = [("parser", "way", "sentences/s", "words/s", "time, treefine's = 1", "peak memory", "for parsing")]
    for name, found in row["result"].items():
        system, _, way = name.rpartition(": ")
        lines.append(
            (
                system,
                way,
                f"{found['sentences_per_second']:,.0f}",
                f"{found['words_per_second']:,}",
                _ratio(found["times_ours"]),
                f"{found['peak_mib']:,} MiB",
                f"{found['above_start_mib']:,} MiB",
            )
        )
        for part in (each for each in found if each.endswith(PART) and each not in WHOLE):
            share = found[part] / found["seconds"]
            speeds = (f"{found[name] / share:,.0f}" for name in ("sentences_per_second", "words_per_second"))
            lines.append(
                (system, f"{way}, {part.removesuffix(PART)}", *speeds, _ratio(found["times_ours"] * share), "", "")
            )
    ours = config["settings"]["treefine"]
    copies = f", {config['copies']} times over" if config["copies"] > 1 else ""
    also = (
        f"{config['sentences']:,} sentences, {config['words']:,} words of {config['file']}{copies}; "
        f"{config['threads']} threads, the median of {config['rounds']} rounds in turn; treefine: `{config['model']}`, "
        f"{ours['precision']}, T = {ours['T']}, tags {ours['tags']}; "
        f"{', '.join(f'{package} {version}' for package, version in config['packages'].items())}."
    )
    return f"{table(*lines)}\n\n{also}\n\n{checked(row)}\n\n{origin(row, command)}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def checked(row: Row) -> str:
    """What the trees of ours were compared with before any time was told."""
    told = [
        f"{name}: {found['other trees, percent']} % other trees, LAS {found['LAS']:.2f} where the plain path has "
        f"{found['LAS, plain']:.2f}"
        for name, found in row["config"]["trees"].items()
    ]
    number = next(iter(row["config"]["trees"].values()))["sentences"]
    return f"Trees beside those of the plain path in float32, on {number:,} dev sentences: {'; '.join(told)}."


def time_spent(path: Path = ROWS) -> str:
    """Where the time from file to file goes, by device."""
    parts = []
    for device in DEVICES:
        row = newest("speed", device, path=path)
        if row is None:
            parts.append(missing(f"a profile on {device}", SPEED if device == "cpu" else f"{SPEED} --device {device}"))
            continue
        profile = row["config"]["profile"]
        whole = profile["profiled_seconds"]
        lines: Lines = [("what", "seconds", "of the whole")]
        lines.append(("all, from file to file, with the profiler on", f"{whole:.2f}", "100 %"))
        busy = "the GPU is busy" if device == "cuda" else "in operations of torch"
        lines.append((busy, f"{profile['busy_seconds']:.2f}", f"{profile['busy_share']:.0%}"))
        for name, each in profile["top_seconds"].items():
            lines.append((f"… `{name.replace('|', '/')}`", f"{each:.2f}", f"{each / whole:.0%}"))
        for name, each in profile.items():
            if name.endswith(", alone_seconds"):
                what = name.removesuffix(", alone_seconds")
                lines.append((f"{what}, measured alone in one process", f"{each:.2f}", f"{each / whole:.0%}"))
        steps = ", ".join(
            f"{count:,} at t = {t}" for t, count in enumerate(row["config"]["sentences by step"], start=1)
        )
        parts.append(f"{table(*lines)}\n\nSentences scored: {steps}. {machine_of(row)}.")
    return "\n\n".join(parts)


def graph_attention(path: Path = ROWS) -> str:
    """The encoder with a graph beside the same one without."""
    rows = encoder_rows(path)
    if not rows:
        return missing("the encoder with and without a graph", ENCODER)
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
    return f"{table(*lines)}\n\nWithout a graph = 1. {origin(rows[-1], ENCODER)}"


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
