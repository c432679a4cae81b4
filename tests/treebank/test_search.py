"""Searches in trees: texts, short patterns and the syntax of Grew, compared with a search that tries all words."""

from io import BytesIO
from itertools import islice, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treefine import read_treebank
from treefine.errors import TreefineError
from treefine.treebank import search
from treefine.treebank.graph import Arcs
from treefine.treebank.search import TextQuery, TreeQuery, read_query
from treefine.treebank.sentence import Sentence


def tree(lines):
    """Read one sentence whose columns are separated by spaces; columns after the label are blank."""
    rows = [line.split() for line in lines.strip().splitlines()]
    rows = [[*row, *["_"] * (10 - len(row))] for row in rows]
    return next(read_treebank(BytesIO(("\n".join(map("\t".join, rows)) + "\n\n").encode()), format="conllu"))


DOGS = tree("""
1 The the DET DT Definite=Def 3 det
2 big big ADJ JJ Degree=Pos 3 amod
3 dogs dog NOUN NNS Number=Plur 4 nsubj
4 chased chase VERB VBD Tense=Past 0 root
5 a a DET DT Definite=Ind 6 det
6 cat cat NOUN NN Number=Sing 4 obj _ SpaceAfter=No
7 . . PUNCT . _ 4 punct
""")
FRENCH = tree("""
1 Il il PRON _ Number=Sing|Number[psor]=Plur 2 nsubj:outer
2 va aller VERB _ _ 0 root
3-4 aux
3 à à ADP _ _ 5 case
4 les le DET _ Number=Plur 5 det
5 champs champ NOUN _ Number=Plur 2 obl
""")


def words(query, sentence=DOGS):
    return [match.words for match in read_query(query).matches(sentence)]


# Texts.


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("big dogs", [(2, 3)]),
        ('"big  dogs"', [(2, 3)]),
        ("cat.", [(6, 7)]),  # no space before the full stop
        ('"VERB -obj-> NOUN"', []),
    ],
)
def test_a_text_is_found_in_the_running_text(query, found):
    assert isinstance(read_query(query), TextQuery)
    assert words(query) == found


def test_a_text_is_found_in_lemmas_and_in_multiword_tokens_and_their_words():
    assert words("aller", FRENCH) == [(2,)]
    assert words("va aux champs", FRENCH) == [(2, 3, 4, 5)]
    assert words("les", FRENCH) == [(4,)]


def test_letters_that_become_two_when_folded_do_not_shift_the_words():
    assert words("STRASSE AM", Sentence.of_words(["Große", "Straße", "am", "See"])) == [(2, 3)]


# Short patterns.


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("DET|ADJ", [(1,), (2,), (5,)]),
        ("/dog/", [(3,)]),
        ("form=The", [(1,)]),
        ("Number<>Plur", [(6,)]),  # only words that have a number
        ("[!Number, upos=NOUN|DET]", [(1,), (5,)]),
        ('form=re".*o.*"', [(3,)]),
        ("ROOT", [()]),
    ],
)
def test_one_node(query, found):
    assert isinstance(read_query(query), TreeQuery)
    assert words(query) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("NOUN -nsubj-> VERB", []),  # the arrow points to the dependent
        ("VERB -[^obj]-> *", [(3, 4), (4, 7)]),
        ('VERB -[re"n.*"|obj]-> *', [(3, 4), (4, 6)]),
        ("VERB -nsubj-> NOUN -amod-> ADJ", [(2, 3, 4)]),
        ("ROOT -> VERB", [(4,)]),
        ("DET < ADJ < NOUN", [(1, 2, 3)]),
    ],
)
def test_a_chain_of_nodes(query, found):
    assert sorted(words(query)) == found


def test_a_label_does_not_match_its_subtypes_but_its_main_type_does():
    assert words("VERB -nsubj-> *", FRENCH) == []
    assert words("VERB -[1=nsubj]-> *", FRENCH) == [(1, 2)]
    assert words("VERB -[1=nsubj, 2=outer]-> *", FRENCH) == [(1, 2)]
    assert words("VERB -[1=nsubj|obl, !2]-> *", FRENCH) == [(2, 5)]


def test_a_blank_head_has_no_arc_and_a_blank_label_is_not_another_label():
    sentence = Sentence.of_words(["a", "b", "c"]).with_arcs(Arcs((None, 1, 1), ("root", "_", "obj")))

    assert sorted(words("* -> *", sentence)) == [(1, 2), (1, 3)]
    assert words("ROOT -> *", sentence) == []
    assert words("* -[^nsubj]-> *", sentence) == [(1, 3)]
    assert words("[!label]", sentence) == words("[!1]", sentence) == [(2,)]


def test_a_match_has_the_nodes_in_the_order_of_the_query():
    (match,) = read_query("pattern { N [upos=NOUN]; V -[nsubj]-> N }").matches(DOGS)
    assert match.nodes == (("N", 3), ("V", 4))


# The syntax of Grew.


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("pattern { V [upos=VERB]; N [upos=NOUN]; V -[nsubj]-> N; N << V; }", [(3, 4)]),
        ("pattern { e: V -[obj]-> N; f: N -> D }", [(4, 5, 6)]),
        ("pattern { V -> N } pattern { N [upos = NOUN] }", [(3, 4), (4, 6)]),
        ("pattern { V -> N; N [upos=NOUN]; N -> A } without { N -> B }", [(4, 5, 6)]),
        ("pattern { N [upos=NOUN] } without { N.lemma = dog }", [(6,)]),
        ('pattern { N [upos=NOUN]; N.lemma = re"d.*"|"cow" }', [(3,)]),
        ("pattern { A []; A.form = A.lemma; A.upos <> A.label }", [(2,), (5,), (6,), (7,)]),
        ('pattern { R [form="__0__"]; R -> V }', [(4,)]),
        ("pattern { ROOT -> V; V -[punct]-> P }", [(4, 7)]),
        ("% a comment\npattern { % another }\n V -[obj]-> N % the last\n }", [(4, 6)]),
    ],
)
def test_the_syntax_of_grew(query, found):
    assert sorted(words(query)) == found


# Faults.


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (5, "A query must be a string, not the int 5."),
        ("x" * 2001, "The query has 2,001 characters; at most 2,000 are possible."),
        ("VERB -obj->", "Character 12 of the query: expected a node, not the end. Write NOUN, /lemma/,"),
        ("a = b = c", "Character 1 of the query: 'a' is not a column or a feature. Use form, lemma,"),
        ("VERB <-nsubj- NOUN", "Character 6 of the query: expected an arrow, not '<'."),
        ("VERB -obj-> dog", "Character 13 of the query: 'dog' is not a node. Write form=dog, xpos=dog or /dog/"),
        ("form=", 'Character 6 of the query: expected a value, not the end. Write go, "go", go|come or re"go.*".'),
        ('form=re"("', "Character 6 of the query: the regular expression is not valid: missing ), unterminated"),
        ("global { is_projective }", "Character 1 of the query: 'global' cannot start a block. Write pattern { … }"),
        ("pattern { N.lemma < M.lemma }", "Character 19 of the query: expected = or <>, not '<'. Write clauses"),
        ("pattern { e.label = obj }", "Character 11 of the query: 'e' is not a node. Add a clause such as e [upos="),
        (" -> ".join(["*"] * 9), "The query has more than 8 nodes. Split it into several queries."),
    ],
)
def test_a_fault_in_a_query(query, message):
    with pytest.raises(TreefineError) as error:
        read_query(query)

    assert str(error.value).startswith(message)


def test_a_query_that_must_try_too_many_words_fails():
    sentence = Sentence.of_words([f"w{number}" for number in range(60)], upos=["X"] * 60)
    query = read_query("pattern { A []; B []; C []; D []; A.upos = B.upos; C.form = D.form }")

    with pytest.raises(TreefineError, match="The query has more than 200,000 combinations to try in one sentence."):
        next(query.matches(sentence))


# Speed.


@pytest.mark.parametrize("query", ["* -> * -> *", "pattern { A -> B; A -> C; B [upos=DET]; C [upos=ADJ] }"])
def test_heads_are_looked_up_and_not_searched(query, monkeypatch):
    n_words = 200
    chain = Arcs(tuple(range(n_words)), ("dep",) * n_words)
    sentence = Sentence.of_words(["w"] * n_words, upos=["NOUN"] * n_words).with_arcs(chain)
    monkeypatch.setattr(search, "_MOST_CHOICES", 3 * n_words)

    assert len(list(read_query(query).matches(sentence))) in (0, n_words - 1, n_words - 2)


# A second implementation, which tries all words for all nodes.

NAMES = ("A", "B", "C")
KEYS_AND_VALUES = {
    "form": ("a", "b", "c"),
    "lemma": ("a", "b"),
    "upos": ("NOUN", "VERB"),
    "label": ("nsubj", "nsubj:pass", "obj"),
    "1": ("nsubj", "obj"),
    "2": ("pass", "outer"),
    "Number": ("Sing", "Plur"),
}
LABELS = (*KEYS_AND_VALUES["label"], "_")
COMPARED_KEYS = ("form", "lemma", "upos", "label", "Number")


@st.composite
def sentences(draw):
    n_words = draw(st.integers(1, 5))
    each = {"min_size": n_words, "max_size": n_words}
    sentence = Sentence.of_words(
        draw(st.lists(st.sampled_from("abc"), **each)),
        lemma=draw(st.lists(st.sampled_from("ab_"), **each)),
        upos=draw(st.lists(st.sampled_from(["NOUN", "VERB", "_"]), **each)),
        feats=draw(st.lists(st.sampled_from(["_", "Number=Sing", "Case=Nom|Number=Plur", "XNumber=Sing"]), **each)),
    )
    heads = draw(st.lists(st.none() | st.integers(0, n_words), **each))
    labels = draw(st.lists(st.sampled_from(LABELS), **each))
    return sentence.with_arcs(Arcs(tuple(heads), tuple(labels)))


@st.composite
def conditions(draw, keys=tuple(KEYS_AND_VALUES)):
    key = draw(st.sampled_from(keys))
    kind = draw(st.sampled_from(["=", "<>", "has", "!", "re"]))
    values = draw(st.lists(st.sampled_from(KEYS_AND_VALUES[key]), min_size=1, max_size=2))
    return (key, kind, values)


def written(condition):
    key, kind, values = condition
    if kind in ("has", "!"):
        return key if kind == "has" else f"!{key}"
    return f'{key}=re"{values[0]}.*"' if kind == "re" else f"{key}{kind}{'|'.join(values)}"


LABEL_CONDITIONS = st.lists(conditions(keys=("1", "2")), min_size=1, max_size=2)
ARROWS = st.one_of(
    st.just(("any", [])),
    st.tuples(st.sampled_from(["is", "not"]), st.lists(st.sampled_from(LABELS[:3]), min_size=1, max_size=2)),
    st.tuples(st.just("parts"), LABEL_CONDITIONS.filter(lambda found: found[0][1] != "has")),
)


def arrow(spec):
    kind, values = spec
    if kind == "parts":
        return f"-[{', '.join(map(written, values))}]->"
    return {"any": "->", "is": f"-[{'|'.join(values)}]->", "not": f"-[^{'|'.join(values)}]->"}[kind]


NODES = st.sampled_from(NAMES)
CLAUSE = st.one_of(
    st.tuples(st.just("node"), NODES, st.lists(conditions(), max_size=2)),
    st.tuples(st.just("arc"), NODES, ARROWS, NODES),
    st.tuples(st.just("order"), NODES, st.sampled_from(["<", "<<"]), NODES),
    st.tuples(st.just("compare"), NODES, *[st.sampled_from(each) for each in (COMPARED_KEYS, ["=", "<>"])], NODES),
)


def written_clause(clause):
    kind, left, *rest = clause
    if kind == "node":
        return f"{left} [{', '.join(map(written, rest[0]))}]"
    if kind == "arc":
        return f"{left} {arrow(rest[0])} {rest[1]}"
    if kind == "order":
        return f"{left} {rest[0]} {rest[1]}"
    key, operator, right = rest
    return f"{left}.{key} {operator} {right}.{key}"


def names_in(clauses):
    return list(dict.fromkeys(each for clause in clauses for each in clause[1:] if each in NAMES))


def value_of(sentence, word, key):
    if word == 0:
        return "__0__" if key == "form" else None
    ours = sentence[word - 1]
    features = dict(each.split("=") for each in ours.feats.split("|") if each != "_")
    main, _, subtype = ours.label.partition(":")
    known = {"form": ours.form, "lemma": ours.lemma, "upos": ours.upos, "label": ours.label, "1": main, "2": subtype}
    found = known.get(key, features.get(key, ""))
    return None if found in ("", "_") else found


def fulfils(sentence, word, condition):
    key, kind, values = condition
    value = value_of(sentence, word, key)
    if kind == "!":
        return value is None
    if value is None or kind == "has":
        return value is not None
    if kind == "re":
        return value.startswith(values[0])
    return (value in values) == (kind == "=")


def clause_holds(sentence, clause, choice):
    kind, left, *rest = clause
    if kind == "node":
        return all(fulfils(sentence, choice[left], each) for each in rest[0])
    ours, theirs = choice[left], choice[rest[-1]]
    if kind == "order":
        return ours < theirs if rest[0] == "<<" else theirs - ours == 1
    if kind == "compare":
        values = [value_of(sentence, word, rest[0]) for word in (ours, theirs)]
        return None not in values and (values[0] == values[1]) == (rest[1] == "=")
    how, labels = rest[0]
    if theirs == 0 or sentence[theirs - 1].head != ours:
        return False
    if how == "parts":
        return all(fulfils(sentence, theirs, each) for each in labels)
    label = sentence[theirs - 1].label
    return how == "any" or (label != "_" and (label in labels) == (how == "is"))


def all_choices(sentence, clauses, chosen):
    free = [name for name in names_in(clauses) if name not in chosen]
    left = [word for word in range(1, len(sentence) + 1) if word not in chosen.values()]
    for picked in permutations(left, len(free)):
        choice = {**chosen, **dict(zip(free, picked, strict=True))}
        if all(clause_holds(sentence, clause, choice) for clause in clauses):
            yield choice


def declared(clauses):
    return [*[("node", name, []) for name in names_in(clauses)], *clauses]


@settings(max_examples=25)
@given(
    sentence=sentences(),
    pattern=st.lists(CLAUSE, max_size=4),
    without=st.lists(st.lists(CLAUSE, min_size=1, max_size=2), max_size=2),
)
def test_the_matches_are_those_of_a_search_that_tries_all_words(sentence, pattern, without):
    blocks = [("pattern", pattern), *[("without", clauses) for clauses in without]]
    query = " ".join(f"{name} {{ {'; '.join(map(written_clause, declared(each)))} }}" for name, each in blocks)

    found = [dict(match.nodes) for match in read_query(query).matches(sentence)]

    expected = [
        choice
        for choice in all_choices(sentence, pattern, {})
        if not any(True for clauses in without for _ in all_choices(sentence, clauses, choice))
    ]
    assert len(found) == len(expected)
    assert all(choice in expected for choice in found)


@settings(max_examples=25)
@given(
    sentence=sentences(),
    nodes=st.lists(st.lists(conditions(), min_size=1, max_size=2), min_size=3, max_size=3),
    arrows=st.lists(ARROWS | st.sampled_from(["<", "<<"]), max_size=2),
)
def test_a_chain_is_a_short_form_of_a_pattern(sentence, nodes, arrows):
    shown = [f"[{', '.join(map(written, each))}]" for each in nodes]
    links = [each if isinstance(each, str) else arrow(each) for each in arrows]
    clauses = [("node", name, each) for name, each in zip(NAMES, nodes[: len(arrows) + 1], strict=False)]
    for left, right, each in zip(NAMES, NAMES[1:], arrows, strict=False):
        clauses.append(("order" if isinstance(each, str) else "arc", left, each, right))

    chain = shown[0] + "".join(f" {link} {node}" for link, node in zip(links, shown[1:], strict=False))
    found = [tuple(word for _, word in match.nodes) for match in read_query(chain).matches(sentence)]

    assert sorted(found) == sorted(tuple(each.values()) for each in all_choices(sentence, clauses, {}))


FRAGMENTS = (
    'pattern { | without { | } | ; | [ | ] | -[ | ]-> | -> | -obj-> | < | << | <> | = | ^ | ! | . | : | % | " | re" | '
    "/ | * | ( | ) | 1= | 2 | ROOT | NOUN | V | N | upos | lemma | go | é | V -> N | V [upos=VERB] | N.lemma = V.lemma"
).split(" | ")


@settings(max_examples=25)
@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_any_string_is_a_query_or_has_a_fault_of_one_line(text):
    try:
        found = list(islice(read_query(text).matches(DOGS), 1000))
    except TreefineError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert all(set(match.words) <= set(range(1, 8)) for match in found)
