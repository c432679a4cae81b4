"""Hypothesis strategies: CoNLL-U with every construct, pairs of files over the same text, and pictures of graphs."""

from hypothesis import strategies as st

from treefine import Graph, Sentence
from treefine.drawing.picture import Picture
from treefine.treebank.sentence import Token

CELL = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x85\u2028\u2029"), min_size=1, max_size=6
)
FEATS = st.sampled_from(["_", "Number=Sing", "Number=Plur", "Case=Nom|Number=Sing", "Typo=Yes", "Abbr=Yes|Typo=Yes"])
LABELS = ["nsubj", "obj", "nsubj:pass", "det", "case", "aux", "punct", "conj", "foo"]
LABEL, TAGS = st.sampled_from(LABELS), st.sampled_from("NV")
ANY_TEXT = st.text(st.characters(), max_size=5)  # includes control characters and lone surrogates


@st.composite
def random_heads(draw, n_words: int) -> list[int]:
    """Draw a tree with one root: words are added in a random order, each below a word already in the tree."""
    order = draw(st.permutations(range(1, n_words + 1)))
    heads = [0] * (n_words + 1)
    for rank, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, rank - 1))] if rank else 0
    return heads[1:]


@st.composite
def treebanks(draw, versions: int = 2) -> list[list[Sentence]]:
    """Draw several annotations of the same few sentences, with random trees, labels and universal tags."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))

    def annotated(n_words: int) -> Sentence:
        tags, labels = (draw(st.lists(each, min_size=n_words, max_size=n_words)) for each in (TAGS, LABEL))
        heads = draw(random_heads(n_words))
        graph = Graph.of_words(heads, [label if head else "root" for head, label in zip(heads, labels, strict=True)])
        return Sentence.of_words([f"w{number}" for number in range(n_words)], upos=tags).with_graph(graph)

    return [[annotated(n_words) for n_words in lengths] for _ in range(versions)]


@st.composite
def conllu_lines(draw) -> list[str]:
    """Draw the lines of one valid sentence."""
    n_words = draw(st.integers(1, 6))
    heads = draw(random_heads(n_words))
    lines = [f"#{comment}" for comment in draw(st.lists(CELL, max_size=2))]
    covered = 0
    for empty in range(1, draw(st.integers(0, 1)) + 1):
        lines.append("\t".join([f"0.{empty}", *draw(st.lists(CELL, min_size=9, max_size=9))]))
    for word in range(1, n_words + 1):
        if word > covered and word < n_words and draw(st.integers(0, 3)) == 0:
            covered = draw(st.integers(word + 1, n_words))
            lines.append("\t".join([f"{word}-{covered}", draw(CELL), *["_"] * 8]))
        cells = draw(st.lists(CELL, min_size=9, max_size=9))
        cells[5] = str(heads[word - 1])
        cells[6] = draw(st.sampled_from(LABELS))
        lines.append("\t".join([str(word), *cells]))
        for empty in range(1, draw(st.sampled_from([0, 0, 0, 1, 2])) + 1):
            lines.append("\t".join([f"{word}.{empty}", *draw(st.lists(CELL, min_size=9, max_size=9))]))
    return lines


@st.composite
def conllu_files(draw) -> bytes:
    """Draw a valid file, with any line ends, blank lines and byte order mark."""
    newline = st.sampled_from(draw(st.sampled_from([["\n"], ["\r\n"], ["\n", "\r\n"]])))
    pieces = [draw(st.sampled_from(["", "", "\ufeff"])), *draw(st.lists(newline, max_size=2))]
    sentences = draw(st.lists(conllu_lines(), min_size=1, max_size=4))
    for sentence in sentences:
        for line in sentence:
            pieces += [line, draw(newline)]
        pieces += draw(st.lists(newline, min_size=1, max_size=3))
    if draw(st.booleans()):
        while pieces[-1] in ("\n", "\r\n"):
            pieces.pop()
        pieces += draw(st.sampled_from([[], ["\n"]]))
    return "".join(pieces).encode()


@st.composite
def segmented(draw, text: str) -> str:
    """Draw a CoNLL-U file of the text: split anywhere into sentences and tokens, some of them multiword tokens."""
    cuts = [0, *sorted(draw(st.sets(st.integers(1, len(text) - 1)))), len(text)] if len(text) > 1 else [0, len(text)]
    tokens = [text[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    sentences: list[list[str]] = [[]]
    for token in tokens:
        if sentences[-1] and draw(st.integers(0, 3)) == 0:
            sentences.append([])
        sentences[-1].append(token)
    lines = []
    for sentence in sentences:
        rows: list[tuple[str, str]] = []  # (ID, FORM)
        n_words = 0
        for token in sentence:
            parts = draw(st.sampled_from([1, 1, 1, 2, 3]))
            if parts > 1:
                rows.append((f"{n_words + 1}-{n_words + parts}", token))
                forms = draw(st.lists(st.text("aAbB", min_size=1, max_size=2), min_size=parts, max_size=parts))
            else:
                forms = [token]
            for form in forms:
                n_words += 1
                rows.append((str(n_words), form))
        heads = draw(random_heads(n_words))
        for identifier, form in rows:
            if "-" in identifier:
                lines.append("\t".join([identifier, form, *["_"] * 8]))
                continue
            lemma, upos, xpos = (draw(st.sampled_from("_xy")) for _ in range(3))
            head = str(heads[int(identifier) - 1])
            label = draw(st.sampled_from(LABELS)) if head != "0" else "root"
            lines.append("\t".join([identifier, form, lemma, upos, xpos, draw(FEATS), head, label, "_", "_"]))
        lines.append("")
    return "\n".join([*lines, ""])


@st.composite
def file_pairs(draw) -> tuple[str, str]:
    """Draw a gold and a system file over the same text."""
    text = draw(st.text("abAB", min_size=1, max_size=12))
    return draw(segmented(text)), draw(segmented(text))


@st.composite
def graphs(draw, n_words: int, labels=LABEL) -> Graph:
    """Draw any graph, also with cycles, words that are their own head, many roots or no root."""
    heads = draw(st.lists(st.integers(0, n_words), min_size=n_words, max_size=n_words))
    return Graph.of_words(heads, draw(st.lists(labels, min_size=n_words, max_size=n_words)))


@st.composite
def tree_pictures(draw, max_words: int = 9) -> Picture:
    """Draw plain words and a tree over them."""
    heads = draw(st.integers(1, max_words).flatmap(random_heads))
    labels = draw(st.lists(LABEL, min_size=len(heads), max_size=len(heads)))
    return Picture(tuple(f"word{number}" for number in range(1, len(heads) + 1)), graph=Graph.of_words(heads, labels))


@st.composite
def any_pictures(draw) -> Picture:
    """Draw any picture."""
    n_words = draw(st.integers(1, 6))

    def perhaps(values):
        return draw(st.one_of(st.just(()), st.lists(values, min_size=n_words, max_size=n_words).map(tuple)))

    graph = draw(st.none() | graphs(n_words, ANY_TEXT))
    before = draw(st.none() | graphs(n_words, ANY_TEXT))
    first = draw(st.integers(1, n_words))
    token = Token(draw(ANY_TEXT), range(first, draw(st.integers(first, n_words)) + 1), "_")
    return Picture(
        tuple(draw(st.lists(ANY_TEXT, min_size=n_words, max_size=n_words))),
        perhaps(ANY_TEXT),
        graph,
        before,
        perhaps(st.floats(0, 1)),
        draw(st.sampled_from([(), (token,)])),
        draw(ANY_TEXT),
    )
