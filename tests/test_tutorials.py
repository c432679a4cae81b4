"""A newcomer who follows a tutorial sees what it shows."""

import pytest

from tests.support.tutorials import PAGES, TutorialError, commands, matches, run, updated


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_tutorial_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run(page)


EXAMPLE = """\
```toml title="greeting.txt"
hello
```

```console
$ mkdir inner
$ cd inner
$ cat ../greeting.txt && \\
  echo 0.97
hello
0.95
```

```python
>>> from pathlib import Path
>>> text = Path("../greeting.txt").read_text()

```

```python
>>> text
'hello...'

```

```
$ this is only shown
```
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    return tmp_path / "page.md"


def test_blocks_share_the_folder_and_the_variables(page):
    page.write_text(EXAMPLE)

    run(page)

    assert len(list(commands(EXAMPLE))) == 7


def test_a_wrong_output_is_reported_with_its_line(page):
    page.write_text(EXAMPLE.replace("hello...", "goodbye"))

    with pytest.raises(TutorialError, match=r"page.md:21: text\n.*\n.*goodbye"):
        run(page)


@pytest.mark.parametrize("wrong", ["0.85", "0.951", "hello\n0.95"])
def test_other_digits_and_more_lines_are_wrong(page, wrong):
    page.write_text(EXAMPLE.replace("0.95", wrong))

    with pytest.raises(TutorialError):
        run(page)


@pytest.mark.parametrize(
    ("printed", "is_right"), [("a 0.91 b", True), ("long text 0.96 b", True), ("a 0.80 b", False), ("a 0.91 c", False)]
)
def test_confidences_are_compared_also_next_to_an_ellipsis(printed, is_right):
    assert matches("... 0.93 b", printed) == is_right


def test_a_failing_command_is_an_error(page):
    page.write_text("```console\n$ false\n```\n")

    with pytest.raises(TutorialError, match="exit code 1"):
        run(page)


def test_updating_writes_the_real_outputs_and_leaves_those_that_match(page):
    page.write_text(EXAMPLE.replace("hello\n0.95\n", "").replace("'hello...'\n", "'goodbye'\n"))

    text = updated(page)

    assert text == EXAMPLE.replace("0.95", "0.97").replace("hello...", "hello\\n")
