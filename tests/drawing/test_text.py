from itertools import combinations
from textwrap import dedent

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.support.generated import any_pictures, graphs, tree_pictures
from treefine import Graph
from treefine.drawing.picture import Picture
from treefine.drawing.text import arc_lines, bars_of, draw_text
from treefine.errors import cells, wrapped
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import Token

BOATS = Picture(
    ("The", "old", "man", "the", "boats", "."),
    ("DET", "ADJ", "VERB", "DET", "NOUN", "PUNCT"),
    Graph.of_words([2, 3, 0, 5, 3, 3], ["det", "nsubj", "root", "det", "obj", "punct"]),
)


def drawing(text: str) -> str:
    return dedent(text).lstrip("\n")


def heads_read_from(lines: list[str], *, up="│├╰┼┴", down="│├╭┼┬", start="╭├╰", own="┬┼┴") -> list[int | None]:
    """Return the head of each word, found by following its line to a bar, and the bar to the word it belongs to."""
    heads: list[int | None] = []
    for row, line in enumerate(lines):
        column = len(line) - len(line.lstrip(" │"))
        if line[column] not in start:
            heads.append(0 if line[column] == "─" else None)
            continue
        low = high = row
        while lines[low][column] in up:
            low -= 1
            assert lines[low][column] in down
        while lines[high][column] in down:
            high += 1
            assert lines[high][column] in up
        (head,) = [each for each in range(low, high + 1) if lines[each][column] in own]
        heads.append(head + 1)
    return heads


def test_a_tree_is_drawn_next_to_its_words():
    assert draw_text(BOATS) == drawing("""
        1     ╭─> The    DET    2 det
        2   ╭─┴─> old    ADJ    3 nsubj
        3 ──┼───> man    VERB   0 root
        4   │ ╭─> the    DET    5 det
        5   ├─┴─> boats  NOUN   3 obj
        6   ╰───> .      PUNCT  3 punct
        """)


def test_the_same_tree_in_ascii():
    assert draw_text(BOATS, ascii_only=True).splitlines()[3:] == [
        "4   | ,-> the    DET    5 det",
        "5   |-^-> boats  NOUN   3 obj",
        "6   `---> .      PUNCT  3 punct",
    ]


def test_changed_arcs_show_their_old_value_and_confidence_has_a_column():
    before = Graph.of_words([3, 3, 0, 5, 3, 3], ["det", "amod", "root", "det", "obj", "punct"])
    picture = Picture(BOATS.forms, (), BOATS.graph, before, (1, 0.5, 0.987, 1, 1, 1), title="step 1")

    assert draw_text(picture) == drawing("""
        step 1
        1     ╭─> The    2 det    1.00  * was: 3 det
        2   ╭─┴─> old    3 nsubj  0.50  * was: 3 amod
        3 ──┼───> man    0 root   0.99
        4   │ ╭─> the    5 det    1.00
        5   ├─┴─> boats  3 obj    1.00
        6   ╰───> .      3 punct  1.00
        """)


def test_right_to_left_words_are_isolated_only_for_pages():
    picture = Picture(("שלום", "peace"), graph=Graph.of_words([2, 0], ["dep", "root"]))

    assert draw_text(picture, isolate=True) == drawing("""
        1   ╭─> \u2068שלום\u2069   2 dep
        2 ──┴─> peace  0 root
        """)
    assert draw_text(picture) == draw_text(picture, isolate=True).translate({0x2068: None, 0x2069: None})


def test_arcs_may_cross_and_multiword_tokens_have_a_line():
    graph = Graph.of_words([3, 4, 0, 3], ["a", "b", "root", "d"])

    assert draw_text(Picture(tuple("wxyz"), graph=graph, tokens=(Token("yz", range(3, 5), "_"),))) == drawing("""
          1   ╭───> w   3 a
          2   │ ╭─> x   4 b
        3-4   │ │   yz
          3 ──┼─│─> y   0 root
          4   ╰─┴─> z   3 d
        """)


def test_the_longest_arc_of_a_cycle_has_no_line_and_a_note():
    graph = Graph.of_words([3, 1, 2, 4, 0], ["a", "b", "c", "d", "root"])

    assert draw_text(Picture(tuple("vwxyz"), graph=graph)) == drawing("""
        1 ┄─┬───> v  3 a     in a cycle
        2   ╰─┬─> w  1 b     in a cycle
        3     ╰─> x  2 c     in a cycle
        4 ┄─────> y  4 d     in a cycle
        5 ──────> z  0 root
        """)


def test_escape_sequences_and_newlines_in_a_word_are_escaped():
    picture = Picture(("\x1b[2J", "a\nb", "\u202eabc", "\ud800", "Öl"), title="\x07")

    assert draw_text(picture).split() == r"\x07 1 \x1b[2J 2 a\nb 3 \u202eabc 4 \ud800 5 Öl".split()
    assert draw_text(picture, ascii_only=True).endswith("5 \\xd6l\n")


@given(tree_pictures())
def test_the_heads_of_every_tree_can_be_read_back_from_the_drawing(picture):
    lines = arc_lines(picture.graph)[1:]

    assert heads_read_from(lines) == list(picture.graph.arcs.heads)


@given(st.integers(1, 9).flatmap(graphs))
def test_all_arcs_except_one_per_cycle_can_be_read_back_from_the_drawing(graph):
    lines = arc_lines(graph)[1:]
    read = heads_read_from(lines)

    assert all(drawn in (None, head) for drawn, head in zip(read, graph.arcs.heads, strict=True))
    assert read.count(None) == len(find_cycles(graph.heads))
    assert len({len(line) for line in lines}) == 1


@given(tree_pictures())
def test_without_free_columns_arcs_have_no_line_but_keep_their_head(picture):
    heads = picture.graph.heads
    bars, loose = bars_of(heads, max_columns=2)

    for word in range(1, len(heads)):
        assert word in loose or heads[word] == 0 or bars[heads[word]].low <= word <= bars[heads[word]].high
    for one, other in combinations(bars.values(), 2):
        assert max(one.column, other.column) < 2
        assert one.column != other.column or one.low > other.high or one.high < other.low


@given(any_pictures())
def test_colour_adds_codes_and_nothing_else(picture):
    plain, colored = draw_text(picture), draw_text(picture, color=True)

    without = colored
    for code in ("0", "1", "2", "36", "1;35"):
        without = without.replace(f"\x1b[{code}m", "")
    assert [line.rstrip() for line in without.splitlines()] == [line.rstrip() for line in plain.splitlines()]
    assert ("\x1b[1;35m" in colored) == bool(picture.changed) or "in a cycle" in plain


@given(st.lists(st.text("a猫ｱＡ😀é\u0301한.", max_size=4), min_size=1, max_size=5))
def test_columns_are_aligned_for_letters_of_any_width(forms):
    picture = Picture(tuple(forms), graph=Graph.of_words([0] * len(forms), ["ROOT"] * len(forms)))

    lines = draw_text(picture).splitlines()

    assert len({cell_len(line[: line.rindex("0 ROOT")]) for line in lines}) == 1


@given(text=st.text(st.characters(blacklist_categories=("Cs",)) | st.just(" "), max_size=60), limit=st.integers(2, 12))
def test_wrapped_text_is_complete_and_no_line_is_too_wide(text, limit):
    lines = wrapped(text, limit)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cells(line) <= limit and len(line) <= 4 * limit for line in lines)


def test_a_word_without_a_head_has_no_arc():
    graph = Graph.of_words([2, 0, 2], ["nsubj", "_", "obj"])

    drawn = draw_text(Picture(("Dogs", "chase", "cats"), graph=graph, unattached=frozenset({2})))

    assert drawn.splitlines()[1] == "2   ├── chase  _ _"


FEATS = ("Mood=Ind|Number=Plur|Person=3|Tense=Pres|VerbForm=Fin", "_")


def test_features_are_cut_off_where_the_terminal_ends():
    picture = Picture(("are", "they"), feats=FEATS, lemmas=("be", "they"))

    for width in range(30, 90):
        first, second = draw_text(picture, width=width).splitlines()
        assert first.startswith("1 are   be    Mood=Ind|")
        assert second == "2 they  they"
        assert len(first) == min(width, 14 + len(FEATS[0]))
        assert first.endswith("…") == (width < 14 + len(FEATS[0]))
