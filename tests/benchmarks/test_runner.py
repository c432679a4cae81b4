"""What all benchmarks share: the runner, the argument parser and the clock."""

import pytest

from benchmarks.__main__ import PLAIN, WITH_OPTIONS, main, measure
from benchmarks.timing import in_turn, median_ratio


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_each_benchmark_tells_its_purpose_and_options(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])

    said = capsys.readouterr().out
    assert said.startswith(f"usage: python -m benchmarks {name} ")
    assert measure(name, WITH_OPTIONS[name]).__doc__.splitlines()[0] in said


@pytest.mark.parametrize("name", PLAIN)
def test_each_benchmark_without_options_is_there(name):
    assert callable(measure(name, PLAIN[name]))


def test_a_name_that_is_none_is_answered_with_all_names():
    with pytest.raises(SystemExit, match="usage: python -m benchmarks .reading,") as told:
        main(["reading", "writing"])

    assert "accuracy|significance|" in str(told.value)


def test_contenders_take_turns_and_are_compared_round_by_round():
    order = []
    works = {name: lambda name=name: order.append(name) for name in ("ours", "theirs")}
    clock = iter([1.0, 2.0, 4.0, 4.0, 1.0, 5.0])

    def timed(work):
        work()
        return next(clock)

    times = in_turn(works, 3, clock=timed)

    assert order == ["ours", "theirs"] * 3
    assert times == {"ours": [1.0, 4.0, 1.0], "theirs": [2.0, 4.0, 5.0]}
    assert median_ratio(times, "theirs", "ours") == 2.0
