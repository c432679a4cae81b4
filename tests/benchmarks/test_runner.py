"""The runner, the argument parser and the clock that all benchmarks share."""

import pytest

from benchmarks.__main__ import PLAIN, WITH_OPTIONS, main, measure


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
