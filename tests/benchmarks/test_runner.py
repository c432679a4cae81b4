"""The runner, the argument parser and the clock that all benchmarks share."""

import pytest

from benchmarks.__main__ import PLAIN, WITH_OPTIONS, main, measure
from benchmarks.timing import in_turn, median_ratio


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_the_help_of_each_benchmark_shows_its_purpose_and_options(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])

    said = capsys.readouterr().out
    assert said.startswith(f"usage: python -m benchmarks {name} ")
    assert measure(name, WITH_OPTIONS[name]).__doc__.splitlines()[0] in said


def test_the_help_describes_each_benchmark_also_after_an_unknown_name(capsys):
    with pytest.raises(SystemExit, match="^writing: not the name of a benchmark") as error:
        main(["reading", "writing"])
    main(["--help"])

    said = capsys.readouterr().out
    for name, module in (PLAIN | WITH_OPTIONS).items():
        assert measure(name, module).__doc__.splitlines()[0] in said
        assert f"\n  {name} " in str(error.value)


def test_functions_take_turns_and_are_compared_round_by_round():
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
