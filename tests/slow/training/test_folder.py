"""Training curves as TensorBoard reads them."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.test_folder import write_metrics


def test_epochs_that_a_resumed_training_repeats_are_one_point_of_the_curve(tmp_path):
    write_metrics(tmp_path, [1, 2, 3])
    write_metrics(tmp_path, [2, 3], after_epoch=1, las=0.6)

    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    points = [(point.step, round(point.value, 6)) for point in board.Scalars("LAS")]
    assert points == [(1, 0.51), (2, 0.62), (3, 0.63)]
