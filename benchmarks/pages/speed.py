"""Generate the tables of docs/speed.md: sentences per second by setting, of all parsers, and of training."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.markdown import NONE, Lines, table
from benchmarks.peers.answers import WORDS
from benchmarks.rows import Row, machine_of, newest, origin, read_rows
from benchmarks.speed.parsers import SURE, parsers_of

SPEED, TRAINING = "python -m benchmarks speed", "python -m benchmarks training_speed --device cuda"
SETTINGS = {  # setting: system of `speed`, system of `files`
    "default: refine until nothing changes": ("treefine", "to convergence"),
    "`stop_above=0.935`": (SURE, "stop above 0.935"),
    "one pass: `max_steps=1`": ("treefine, one pass", ""),
    '`precision="float32"`': ("treefine, float32", ""),
}


def by_setting(cpu: Row, gpu: Row) -> str:
    """Return the sentences per second on a CPU and on a GPU, by setting."""
    precisions = [cpu["config"]["settings"]["treefine"]["precision"], gpu["config"]["settings"]["to convergence"][0]]
    heads = [f"{machine_of(row)}, {precision}" for row, precision in zip((cpu, gpu), precisions, strict=True)]
    lines: Lines = [("setting", *heads)]
    for setting, (on_cpu, on_gpu) in SETTINGS.items():
        lines.append((setting, _per_second(cpu, f"{on_cpu}: {WORDS}"), _per_second(gpu, on_gpu)))
    config = cpu["config"]
    notes = (
        f"Sentences/s of the bundled model `{config['model']}`, which also predicts the tags. The sentences of "
        f"{config['file']} have {config['words'] / config['sentences']:.0f} words on average. On the CPU words are in "
        f"memory; on the GPU {gpu['config']['workers']} worker processes read and write CoNLL-U files. "
        f"{origin(cpu, SPEED)} {origin(gpu, 'python -m benchmarks files --device cuda')}"
    )
    return f"{table(*lines)}\n\n{notes}"


def _per_second(row: Row, name: str) -> str:
    measured = row["result"].get(name)
    return f"{measured['sentences_per_second']:,.0f}" if measured else NONE


def training() -> str:
    """Return the speed of training, compared with the straightforward version."""
    rows = {row["config"]["sentences"]: row for row in read_rows("training_speed", size="base", words=60)}
    lines: Lines = [("batch size", "treefine", "straightforward version", "times as fast", "peak memory")]
    for size, row in sorted(rows.items()):
        result = row["result"]
        speeds = [result[f"{name}_sentences_per_second"] for name in ("treefine", "straightforward")]
        memory = [result[f"{name}_peak_megabytes"] for name in ("treefine", "straightforward")]
        lines.append(
            (
                size,
                *(f"{speed:,.0f} sentences/s" for speed in speeds),
                f"{result['straightforward/treefine, time']:.1f}",
                " instead of ".join(f"{each:,.0f} MB" for each in memory),
            )
        )
    return f"{table(*lines)}\n\n{origin(rows[max(rows)], TRAINING)}"


SPEED_PAGE: dict[str, Callable[[], str]] = {
    "speed_gist": lambda: by_setting(newest("speed", "cpu"), newest("files", "cuda")),
    "speed_cpu": lambda: parsers_of(newest("speed", "cpu"), SPEED),
    "speed_training": training,
}
