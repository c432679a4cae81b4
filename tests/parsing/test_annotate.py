"""Comments that mark the start of a file."""

import io
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import conllu_files
from treefine import read_treebank
from treefine.parsing.annotate import newdoc, with_newdoc


@settings(max_examples=30)
@given(content=conllu_files(), path=st.text(st.characters(), min_size=1, max_size=9))
def test_the_name_of_a_file_is_one_comment_before_its_first_sentence(content, path):
    first, *others = (replace(each, path=path) for each in read_treebank(io.BytesIO(content)))

    named = with_newdoc(first)

    (again,) = read_treebank(io.BytesIO(named.to_conllu().encode()))
    start = newdoc("" if path.startswith("<") else path)
    assert again.comments == (start, *first.comments)
    assert again.columns == first.columns
    assert with_newdoc(named) == named
    assert [with_newdoc(each) for each in others] == others
