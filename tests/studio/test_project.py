"""A project: the queue of sentences, other annotators, labels, and the parser's part in changes."""

from types import SimpleNamespace

import pytest

from tests.support.studio import DOG, RAIN, STARS, TREES, Stub, arc_of, decided, reference, until
from treefine.errors import TreefineError
from treefine.studio.actions import Action
from treefine.studio.project import ChangeRequest, Queue

INVALID = "# sent_id = bad\n1\tno\n\n"


def edit(project, action, *, key=1, id="one", **options):
    return project.edit(asked(id, key, project.documents[0].version(key), action=action, **options))


def asked(id, key=1, version=0, **options):
    return ChangeRequest(id=id, key=key, version=version, **options)


def keys(project, **options):
    return project.queue(0, **options).keys


def without_ids(text):
    return "".join(line + "\n" for line in text.split("\n")[:-1] if not line.startswith("# sent_id"))


# The queue


def test_the_most_doubtful_sentences_come_first_and_those_that_are_done_last(open_project):
    project = open_project(partner=Stub(confidences={3: 0.5, 7: 0.2}))
    document = project.documents[0]
    until(lambda: None not in [project.expected_errors(0, key) for key in document.keys])

    assert [round(project.expected_errors(0, key), 2) for key in (1, 2, 3)] == [0.62, 1.48, 0.56]
    assert keys(project, order="doubt") == [2, 1, 3]
    edit(project, Action("status", value="done"), key=2)
    assert project.expected_errors(0, 2) == 0.0

    assert keys(project, order="doubt") == [1, 3, 2]


def test_a_search_finds_words_and_combines_with_filters(open_project):
    project = open_project(STARS + INVALID + DOG + RAIN)
    edit(project, Action("status", value="done"), key=4)

    assert project.queue(0, search="dog") == Queue([3], {3: (3,)}, None)
    assert project.queue(0, search="VERB -nsubj-> NOUN").marked == {3: (3, 4), 4: (1, 2)}
    assert keys(project, search="VERB -nsubj-> NOUN", show="open") == [3]
    assert [keys(project, show=show) for show in ("all", "done", "changed")] == [[1, 2, 3, 4], [4], [4]]
    with pytest.raises(TreefineError, match="expected a node"):
        project.queue(0, search="VERB -nsubj->")


# Other annotators

OTHER_STARS = STARS.replace("2\tobj", "1\tnmod").replace("4\tnummod", "2\tobl")


def test_references_are_found_for_every_file_by_sent_id_and_not_by_position(open_project):
    other = reference(RAIN + OTHER_STARS)
    project = open_project(STARS + DOG, RAIN, without_ids(RAIN), references=[other])

    trees = [project.others(*place)[0][1] for place in ((0, 1), (0, 2), (1, 1), (2, 1))]

    assert [tree and tree.sent_id for tree in trees] == ["stars", None, "rain", None]
    assert [project.n_different(*place) for place in ((0, 1), (0, 2), (1, 1))] == [2, 8, 0]
    assert project.queue(0, order="difference") == Queue([2, 1], {}, 2)
    assert project.queue(1, order="difference") == Queue([1], {}, 0)
    assert (project.agreement.sentences, project.agreement.words) == (2, 8)


def test_the_agreement_is_that_of_the_annotators(open_project):
    first, second = reference(TREES, "A"), reference(OTHER_STARS + DOG + RAIN, "B")

    assert open_project().agreement is None
    both = open_project(STARS, references=[first, second]).agreement
    one = open_project(TREES, references=[second]).agreement
    few = open_project(RAIN + STARS, references=[second]).agreement

    assert (both.words, both.uas) == (one.words, one.uas) == (16, 14 / 16)
    assert (few.words, few.uas) == (8, 6 / 8)


# Changes of a person


def test_an_unknown_label_is_known_to_the_file_once_a_person_insists(open_project):
    project = open_project(TREES, RAIN)
    edit(project, Action("label", word=4, label="obj1", is_new=True), id="a")
    edit(project, Action("label", word=7, label="obj1"), key=2, id="b")

    assert arc_of(project.documents[0], 7, key=2) == (4, "obj1")
    assert "obj1" in project.values(0)["labels"]
    assert "obj1" not in project.values(1)["labels"]


def test_a_correction_confirms_the_words_before_it_if_the_person_wants_that(open_project):
    project = open_project()

    edit(project, Action("arc", word=4, head=1), id="a", confirms=True)
    edit(project, Action("label", word=2, label="root"), key=3, id="b", confirms=False)
    edit(project, Action("cell", word=7, column="upos", value="X"), key=2, id="c", confirms=True)

    document = project.documents[0]
    assert [decided(document, key) for key in (1, 2, 3)] == [[1, 2, 3], [], [2]]
    assert "Keep=Head" in document.text(1)


# The parser's part


def test_the_parser_follows_a_correction_once(open_project):
    project = open_project(partner=Stub(follows={(4, 1): [(5, 4, "punct")], (5, 4): [(3, 2, "obj")]}))
    document = project.documents[0]
    edit(project, Action("arc", word=4, head=1), id="a")

    change = project.follow(asked("b", 1, 1))

    assert change.is_follow_up
    assert arc_of(document, 5) == (4, "punct")
    assert project.follow(asked("b", 1, 1)) == change  # the answer was lost
    assert project.follow(asked("c", 1, 2)) is None  # nothing follows from a follow-up
    assert project.follow(asked("c", 2, 0)) is None  # another sentence
    project.undo(asked("d"))
    assert document.text(1) == STARS
    assert project.undo(asked("e", is_redo=True)).is_follow_up
    assert (arc_of(document, 4), arc_of(document, 5)) == ((1, "obj"), (4, "punct"))


def test_a_person_who_is_faster_than_the_parser_wins(open_project):
    class Slow(Stub):
        def follow(self, before, after):
            edit(project, Action("label", word=1, label="obl"), id="meanwhile")
            return super().follow(before, after)

    project = open_project(partner=Slow(follows={(4, 1): [(5, 4, "punct")]}))
    edit(project, Action("arc", word=4, head=1), id="a")

    assert project.follow(asked("b", 1, 1)) is None
    assert arc_of(project.documents[0], 1) == (2, "obl")
    assert arc_of(project.documents[0], 5) == (2, "punct")


def test_parsing_again_replaces_the_tree_except_what_is_decided(open_project):
    project = open_project(partner=Stub(parses=[(4, 1, "nmod"), (3, 2, "obj")]))
    edit(project, Action("keep", words=(3,)), id="a")

    change = project.parse(asked("b", 1, 1))

    assert change.what == "parse"
    assert (arc_of(project.documents[0], 3), arc_of(project.documents[0], 4)) == ((4, "nummod"), (1, "nmod"))
    assert project.parse(asked("c", 1, 2)) is None


def test_the_studio_works_without_a_parser(open_project):
    project = open_project()
    edit(project, Action("arc", word=4, head=1), id="a")

    assert project.follow(asked("b", 1, 1)) is None
    assert keys(project, order="doubt") == [1, 2, 3]
    with pytest.raises(TreefineError, match="No parser reads this file. Name one with --model."):
        project.parse(asked("c", 1, 1))


def test_a_file_in_another_language_is_edited_without_the_parser(open_project):
    stub = Stub(follows={(4, 1): [(5, 4, "punct")]})
    project = open_project(TREES, STARS.replace("two", "dos"), partner=stub, languages=["en", "es"])
    until(lambda: project.expected_errors(0, 3) is not None)
    project.edit(asked("a", file=1, action=Action("arc", word=4, head=1)))

    assert project.follow(asked("b", 1, 1, file=1)) is None
    assert project.advise(1, 1) == (1, None)
    assert project.expected_errors(1, 1) is None


# Learning


def test_the_learner_gets_the_sentences_that_are_done_and_its_model_is_adopted(open_project):
    seen = []
    stub = Stub()
    learner = SimpleNamespace(
        consider=seen.append, adopt=lambda load: load("new") or "new model", stop=lambda: seen.append("stopped")
    )
    project = open_project(TREES, RAIN, partner=stub, learner=learner)
    until(lambda: project.expected_errors(0, 3) is not None)
    edit(project, Action("status", value="done"), key=2)

    project.learn()
    project.adopt()

    assert [[each.sent_id for each in some] for some in seen] == [["dog"]]
    assert stub.name == "new model"
    until(lambda: project.expected_errors(0, 3) is not None)
    project.close()
    assert seen[-1] == "stopped"
