"""Metrics: one line per epoch and the same points in TensorBoard, without duplicates after an interruption."""

import json
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.disks import full_disk
from treefine.errors import TreefineError
from treefine.training.folder import MetricsLog


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def points(folder, name):
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    return [(each.step, round(each.value, 6)) for each in board.Scalars(name)]


def write(folder, epochs, *, after_epoch=0, las=0.5):
    with MetricsLog(folder, after_epoch=after_epoch) as metrics:
        for epoch in epochs:
            metrics.add(epoch, {"LAS": las + epoch / 100, "loss": 1.0})


def test_each_epoch_is_a_line_and_a_point(tmp_path):
    write(tmp_path / "new", [1, 2])

    assert lines(tmp_path / "new") == [
        {"epoch": 1, "LAS": 0.51, "loss": 1.0},
        {"epoch": 2, "LAS": 0.52, "loss": 1.0},
    ]
    assert points(tmp_path / "new", "LAS") == [(1, 0.51), (2, 0.52)]
    assert points(tmp_path / "new", "loss") == [(1, 1.0), (2, 1.0)]


def test_repeated_epochs_appear_once(tmp_path):
    write(tmp_path, [1, 2, 3])
    write(tmp_path, [2, 3], after_epoch=1, las=0.6)

    assert [(line["epoch"], line["LAS"]) for line in lines(tmp_path)] == [(1, 0.51), (2, 0.62), (3, 0.63)]
    assert points(tmp_path, "LAS") == [(1, 0.51), (2, 0.62), (3, 0.63)]


@pytest.mark.parametrize("rest", ['{"epoch": 2, "LA', "{}", "[2]", "\n"], ids=repr)
def test_the_incomplete_line_of_a_killed_training_is_dropped(tmp_path, rest):
    write(tmp_path, [1])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(rest)

    write(tmp_path, [2], after_epoch=1)

    assert [line["epoch"] for line in lines(tmp_path)] == [1, 2]


def test_without_tensorboard_only_the_lines_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)

    write(tmp_path, [1, 2])

    assert [line["epoch"] for line in lines(tmp_path)] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_full_disk_is_reported_and_keeps_the_lines_before(tmp_path):
    with MetricsLog(tmp_path, after_epoch=0) as metrics:
        metrics.add(1, {"LAS": 0.5})
        with full_disk(30), pytest.raises(TreefineError, match="Cannot write the metrics: File too large"):
            metrics.add(2, {"LAS": 0.5})

    write(tmp_path, [2], after_epoch=1)
    assert [line["epoch"] for line in lines(tmp_path)] == [1, 2]
