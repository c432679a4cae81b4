"""Decisions on the page, in a real browser: an arc is kept or forbidden, and the rest is parsed around it."""

from tests.support.pages import GARDEN, arcs, classes, click_arc, conllu, link, open_link, parse, said, until_parsed
from treefine import read_treebank

TELESCOPE = "I saw the man with the telescope."  # the bundled model attaches the telescope (7) to the man (4)


def choose(page, button):
    return until_parsed(page, lambda: page.click(f"#panel >> text={button}"))


def test_keeping_an_arc_with_the_mouse_shows_what_else_changed(page, served):
    parse(page, served, GARDEN)
    tree = arcs(page)
    page.click("#timeline button >> nth=1")
    click_arc(page, 7)
    assert said(page, "#panel-title") == "children ← stealing: nsubj"
    assert " · ".join(["NOUN", "NNS"]) in said(page, "#panel-word")

    choose(page, "Keep this arc")

    assert arcs(page)["7"] == [8, "nsubj"] != tree["7"]
    assert said(page, "#decisions").splitlines()[0] == "7 children: stealing, nsubj"
    assert "kept" in classes(page, 7)
    moved = {word for word in tree if tree[word] != arcs(page)[word]} - {"7"}
    assert moved
    assert {word for word in tree if "moved" in classes(page, word)} == moved
    assert said(page, "#moved").startswith(f"Parsed again, {1 + len(moved)} arcs changed. ")
    assert "children: stealing, nsubj (was ROOT, root)" in said(page, "#moved")
    assert "you decided this" in said(page, "#legend")


def test_an_arc_can_be_kept_with_the_keyboard_only(page, served):
    parse(page, served, GARDEN)
    page.focus("#drawing")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # G¹
    for _ in range(7):
        page.keyboard.press("ArrowDown")
    assert (
        page.evaluate("document.activeElement.ariaLabel.replace(/[\u2068\u2069]/g, '')") == "children ← stealing: nsubj"
    )
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.innerText") == "Keep this arc"

    until_parsed(page, lambda: page.keyboard.press("Enter"))

    assert arcs(page)["7"] == [8, "nsubj"]
    assert page.evaluate("document.activeElement.dataset.word") == "7"  # the focus stays there
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.dataset.word") == "1"
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.is_hidden("#panel")
    assert page.evaluate("document.activeElement.dataset.word") == "1"


def test_a_forbidden_head_returns_when_the_decision_is_removed(page, served):
    parse(page, served, TELESCOPE)
    tree = arcs(page)
    assert tree["7"] == [4, "nmod"]
    click_arc(page, 7)

    choose(page, "Forbid this head")

    assert arcs(page)["7"] == [2, "obl"]
    assert said(page, "#decisions").splitlines()[0] == "7 telescope: not the head man"
    assert page.text_content("#drawing text.cross[data-word='7']").startswith("✗")
    assert "✗ 7 telescope: not the head man" in said(page, "#legend")
    until_parsed(page, lambda: page.click("#decisions button"))
    assert arcs(page) == tree
    assert page.is_hidden("#decided")
    assert page.locator("#drawing .cross, #legend .forbidden").count() == 0
    assert page.evaluate("document.activeElement.id") == "drawing"


def test_another_head_or_label_can_be_chosen_and_undone(page, served):
    parse(page, served, TELESCOPE)
    tree = arcs(page)
    page.click("text=Table of words")
    page.click("#table button >> nth=6")
    assert "7 telescope" not in said(page, "#other-head")
    page.select_option("#other-head", "2")
    choose(page, "Set head")
    assert arcs(page)["7"][0] == 2
    page.click("#table button >> nth=6")
    page.select_option("#other-label", "dep")
    choose(page, "Set label")
    assert arcs(page)["7"] == [2, "dep"]
    assert page.locator("#decisions li").count() == 2

    page.click("#table button >> nth=6")
    choose(page, "Undo my decisions here")

    assert arcs(page) == tree


def test_a_label_can_be_kept_or_forbidden_and_all_decisions_cleared(page, served):
    parse(page, served, TELESCOPE)
    tree = arcs(page)
    click_arc(page, 7)
    choose(page, "Forbid this label")
    assert arcs(page)["7"][1] != "nmod"
    page.click("#drawing text.form[data-word='4']")  # a click on a word opens its arc
    choose(page, "Keep only the label")
    page.click("#drawing text.form[data-word='1']")
    choose(page, "Keep only the head")
    assert page.locator("#decisions li").count() == 3

    until_parsed(page, lambda: page.click("#clear"))

    assert arcs(page) == tree
    assert page.is_hidden("#decided")


def test_the_previous_arc_can_be_kept(page, served):
    parse(page, served, GARDEN)
    page.click("#timeline button >> nth=2")
    page.click("#drawing g.old[data-word='7'] text")
    assert said(page, "#panel-title") == "children ← stealing: nsubj"

    choose(page, "Keep only the head")

    assert arcs(page)["7"][0] == 8


def test_contradicting_decisions_show_an_error_and_the_last_tree_stays(page, served):
    open_link(page, served, TELESCOPE, decide="1 2 head 0")
    tree = arcs(page)
    click_arc(page, 4)
    page.select_option("#other-head", "0")

    choose(page, "Set head")

    assert "satisfies all of these constraints" in said(page, "#problem")
    assert arcs(page) == tree
    assert page.locator("#decisions li").count() == 1


def test_decisions_are_marks_in_the_downloaded_conllu_and_apply_when_it_is_pasted(page, served, tmp_path):
    open_link(page, served, TELESCOPE, decide="1 7 head 2")
    tree = arcs(page)
    with page.expect_download() as download:
        page.click("#save-conllu")
    download.value.save_as(tmp_path / "trees.conllu")

    (sentence,) = read_treebank(tmp_path / "trees.conllu")
    parse(page, served, (tmp_path / "trees.conllu").read_text())

    assert "Keep=Head" in sentence.column(sentence.format.misc)[6]
    assert arcs(page) == tree
    assert said(page, "#decisions").splitlines()[0] == "7 telescope: head saw"


def test_marks_in_pasted_conllu_are_listed_and_can_be_removed(page, served, tmp_path):
    rows = [("Dogs", "Keep=Arc"), ("bark", "NotHead=1,3|NotLabel=dobj"), ("loudly", "_")]
    words = conllu([(form, head, "dep") for (form, _), head in zip(rows, (3, 1, 0), strict=True)]).splitlines()
    parse(page, served, "".join(f"{line[:-1]}{mark}\n" for line, (_, mark) in zip(words, rows, strict=False)) + "\n")
    assert [line for line in said(page, "#decisions").splitlines() if line != "Remove"] == [
        "1 Dogs: loudly, dep",
        "2 bark: not the head Dogs",
        "2 bark: not the head loudly",
        "2 bark: not the label dobj",
    ]
    page.click("#timeline button >> nth=-1")
    assert arcs(page)["1"] == [3, "dep"]
    assert arcs(page)["2"][0] == 0

    until_parsed(page, lambda: page.click("#decisions button >> nth=0"))
    assert page.locator("#decisions li").count() == 3
    assert arcs(page)["1"] == [2, "nsubj"]
    until_parsed(page, lambda: page.click("#clear"))

    assert page.is_hidden("#decided")
    with page.expect_download() as download:
        page.click("#save-conllu")
    download.value.save_as(tmp_path / "trees.conllu")
    assert "Keep" not in (tmp_path / "trees.conllu").read_text()


def test_decisions_stay_as_long_as_the_words_of_their_sentence_are_the_same(page, served):
    open_link(page, served, TELESCOPE, decide="1 7 head 2")
    page.focus("#steps")

    until_parsed(page, lambda: page.keyboard.press("End"))
    assert said(page, "#steps-value") == "8"
    assert page.locator("#decisions li").count() == 1

    page.fill("#text", f"Dogs bark.  {TELESCOPE} ")
    page.click("#parse")
    page.wait_for_selector("#decisions >> text=Sentence 2, 7")
    assert page.input_value("#sentences") == "2"
    assert arcs(page)["7"][0] == 2

    page.fill("#text", GARDEN)
    until_parsed(page, lambda: page.click("#parse"))
    assert page.is_hidden("#decided")
    assert said(page, "#note") == "1 decision no longer fits the text and was removed."


def test_an_unknown_label_in_a_link_is_refused_with_the_nearest_label(page, served):
    for decision in ("1 2 label nsbj", "1 2 not-label nsbj", "1 2 arc 0 nsbj"):
        page.goto("about:blank")
        page.goto(link(served, TELESCOPE, decide=decision))
        page.wait_for_selector("#problem-text:not(:empty)")

        assert said(page, "#problem-text") == "Sentence 1, word 2: The model has no label 'nsbj'. Did you mean nsubj?"
        assert page.is_hidden("#result")


def test_a_click_on_the_line_of_an_arc_opens_that_arc(page, served):
    parse(page, served, GARDEN)
    # The tip of each arrow; the vertical line of its arc is above it.
    tips = dict(
        page.eval_on_selector_all(
            "#drawing g:not(.old) > path.head",
            "all => all.map(each => [each.parentNode.dataset.word, each.getAttribute('d').slice(1).split('l')[0]])",
        )
    )
    assert len(tips) == 11

    def line_of(word, aside):
        corner = page.locator("#drawing svg").bounding_box()  # opening the panel may scroll the page
        x, y = map(float, tips[word].split())
        return corner["x"] + x + aside, corner["y"] + y - 12

    for word in tips:
        for aside in (0, 5):
            page.mouse.click(*line_of(word, aside))
            assert page.get_attribute("#drawing g.chosen >> nth=0", "data-word") == word
            page.keyboard.press("Escape")

    page.mouse.move(*line_of("1", 0))
    assert page.locator("#drawing g.near").count() == 1
    page.mouse.click(*line_of("1", -20))  # no arc within 12 pixels
    assert page.is_hidden("#panel")


def test_the_panel_covers_no_arc_and_both_are_visible(new_page, served):
    page = new_page()
    page.set_viewport_size({"width": 700, "height": 420})
    long = "Nobody who knew the man who sold the house that my uncle built said why he had left so early."
    parse(page, served, long)

    for word in (1, 13):
        page.click(f"#drawing text.form[data-word='{word}']")
        panel, arc = (
            page.locator("#panel").bounding_box(),
            page.locator("#drawing g.chosen[role=button]").bounding_box(),
        )
        assert arc["y"] >= 0
        assert arc["y"] + arc["height"] <= panel["y"]
        assert panel["y"] + panel["height"] <= 420
        assert 0 <= arc["x"] <= arc["x"] + arc["width"] <= 700

    page.click("#previous")  # the page can be used while the panel is open; another graph closes it
    assert page.is_hidden("#panel")
    assert page.evaluate("document.activeElement.id") == "previous"


CONTRADICTIONS = [
    (["1 2 arc 3 obj", "1 2 head 1"], ["1 2 head 1"]),
    (["1 2 arc 3 obj", "1 2 label det"], ["1 2 head 3", "1 2 label det"]),
    (["1 2 head 3", "1 2 label obj"], ["1 2 head 3", "1 2 label obj"]),
    (["1 2 head 3", "1 2 head 1", "1 3 head 1"], ["1 2 head 1", "1 3 head 1"]),
    (["1 2 head 3", "1 2 not-head 3"], ["1 2 not-head 3"]),
    (["1 2 not-head 3", "1 2 not-head 1"], ["1 2 not-head 3", "1 2 not-head 1"]),
    (["1 2 not-head 3", "1 2 arc 3 obj"], ["1 2 arc 3 obj"]),
    (["1 2 arc 3 obj", "1 2 not-label obj"], ["1 2 head 3", "1 2 not-label obj"]),
    (["1 2 not-label obj", "1 2 label obj", "2 2 label det"], ["1 2 label obj", "2 2 label det"]),
    (["1 2 label obj", "1 2 label obj"], ["1 2 label obj"]),
    (["1 2 arc 3", "0 2 head 1", "1 2 head x", "1 2 other 1", "1 2 label ", "1 2 label a b"], ["1 2 label a b"]),
]


def test_a_decision_replaces_those_that_it_contradicts_and_invalid_ones_are_ignored(page, served):
    page.goto(served)
    script = """async (lines) => {
        const { decisionOf, spelled, withDecision } = await import('./page/decisions.js');
        return lines.map(decisionOf).filter(each => each).reduce(withDecision, []).map(spelled);
    }"""

    for decisions, left in CONTRADICTIONS:
        assert page.evaluate(script, decisions) == left


def test_a_word_without_an_arc_can_get_one(page, served):
    open_link(page, served, conllu([("Dogs", 2, "nsubj"), ("bark", 0, "root")]), t=0, initial="empty")
    page.click("#drawing text.form[data-word='1']")
    assert said(page, "#panel-title") == "Dogs: no head"
    assert page.is_hidden("#panel-arc")
    page.select_option("#other-head", "0")

    choose(page, "Set head")

    assert arcs(page)["1"][0] == 0
