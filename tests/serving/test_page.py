"""The page in a real browser: parsing, looking, stepping, leaving with a file or a link."""

import re
from xml.etree import ElementTree

import pytest

from tests.support.pages import GARDEN, HEBREW, arcs, click_arc, conllu, open_link, parse, said, start, until_parsed
from treefine.treebank.conllu import read_treebank

HEADS = [3, 3, 7, 7, 7, 7, 0, 7, 10, 8, 7]
LABELS = "nmod:poss amod nsubj cop case nummod root acl det obj punct".split()
SECOND = {str(word): [head, label] for word, (head, label) in enumerate(zip(HEADS, LABELS, strict=True), start=1)}
FIRST = SECOND | {"7": [8, "nsubj"]}
WORDS = [*GARDEN.removesuffix(".").split(), "."]
DOGS = conllu([("Dogs", 2, "nsubj"), ("bark", 0, "root")])


def test_the_first_page_has_an_example_that_ctrl_enter_parses(page, served):
    start(page, served)
    page.focus("#text")
    assert page.is_hidden("#result")

    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#drawing svg")

    assert said(page, "#sentence-text") == "My debut novel is about two children stealing a crown."
    assert len(arcs(page)) == 11
    assert page.title() == "treefine"


def test_buttons_keys_and_the_timeline_step_through_the_graphs(page, served):
    parse(page, served, GARDEN)
    assert page.locator("#timeline button").all_inner_texts() == ["G⁰", "G¹", "G²", "G³"]
    assert page.is_disabled("#next")
    assert "no arc changed. All arcs are right with probability 0." in said(page, "#step-title")

    page.click("#previous")
    assert "step 2: 1 arc changed" in said(page, "#step-title")
    changed = page.eval_on_selector_all("#drawing g.changed[role=button]", "all => all.map(each => each.dataset.word)")
    assert changed == ["7"]
    assert page.locator("#drawing g.old").count() == 2  # a line and a label
    assert "changed in this step" in said(page, "#legend")

    page.focus("#drawing")
    page.keyboard.press("ArrowLeft")
    assert arcs(page) == FIRST
    page.keyboard.press("ArrowLeft")
    assert "initial graph: empty" in said(page, "#step-title")
    assert arcs(page) == {}
    assert page.locator("#drawing text.form").all_text_contents() == WORDS
    assert page.is_disabled("#previous")

    page.click("#timeline button >> nth=2")
    assert page.get_attribute("#timeline button >> nth=2", "aria-current") == "step"
    assert arcs(page) == SECOND


def test_words_stay_in_place_while_arcs_move_and_reduced_motion_is_respected(new_page, served):
    places = "all => all.map(each => [each.getAttribute('x'), each.getAttribute('y')].join())"
    moving = {}
    for motion in ("no-preference", "reduce"):
        page = new_page(reduced_motion=motion)
        parse(page, served, GARDEN)
        before = page.eval_on_selector_all("#drawing text.form", places)
        # In one script, because the animation is short.
        moving[motion] = page.evaluate("() => (previous.click(), document.getAnimations().length)")
        assert page.eval_on_selector_all("#drawing text.form", places) == before

    assert moving["no-preference"] > 0
    assert moving["reduce"] == 0


def test_the_slider_sets_the_maximum_number_of_steps(page, served):
    parse(page, served, GARDEN)
    page.focus("#steps")

    until_parsed(page, lambda: page.keyboard.press("Home"))

    assert said(page, "#steps-value") == "1"
    # One step ends in a cycle: the tree is another graph.
    assert page.locator("#timeline button").all_inner_texts() == ["G⁰", "G¹", "tree"]
    assert "best tree" in said(page, "#step-title").lower()


def test_pasted_trees_are_the_start_and_are_shown_first_with_their_own_labels(page, served):
    gave = "She gave it to him .".split()
    arcs_of_gave = [(2, "nsubj"), (0, "root"), (2, "obj"), (2, "advmod"), (2, "obl:recipient"), (2, "punct")]
    pasted = conllu([(form, *arc) for form, arc in zip(gave, arcs_of_gave, strict=True)])
    start(page, served)
    assert page.is_checked("text=an empty graph")

    page.fill("#text", pasted)
    assert said(page, "#read-as") == "Read as CoNLL-U: 1 sentence."
    assert page.is_checked("text=pasted trees")
    assert page.is_hidden("#trees-field")
    until_parsed(page, lambda: page.click("#parse"))

    assert arcs(page) == {str(word): list(arc) for word, arc in enumerate(arcs_of_gave, start=1)}
    assert page.get_attribute("#timeline button >> nth=0", "aria-current") == "step"
    assert said(page, "#note") == (
        "The parser changed 2 of 6 arcs; G⁰ is your tree. To edit a treebank file, use treefine annotate."
    )
    page.click("#next")
    assert arcs(page)["4"] == [5, "case"]
    assert arcs(page)["5"] == [2, "obl"]  # the model has no label obl:recipient: a change that is shown


def test_another_start_can_be_chosen_for_pasted_trees_and_the_earlier_one_returns_with_a_text(page, served):
    parse(page, served, conllu([("Dogs", 0, "root"), ("bark", 1, "obj")]))

    until_parsed(page, lambda: page.check("text=an empty graph"))
    page.click("#timeline button >> nth=0")
    assert arcs(page) == {}
    assert "The pasted heads and labels were not used." in said(page, "#note")

    page.check("text=pasted trees")
    page.fill("#text", "Dogs bark.")
    assert page.is_checked("text=an empty graph")
    page.fill("#text", DOGS.replace("\t2\tnsubj", "\t_\t_").replace("\t0\troot", "\t_\t_"))  # words without heads
    assert page.is_checked("text=an empty graph")


def test_trees_can_be_pasted_in_addition_to_a_text(page, served):
    parse(page, served, GARDEN)
    page.check("text=pasted trees")
    assert page.is_visible("#trees-field")
    page.fill("#trees", DOGS.replace("2\tbark\t_\t_\t_\t_\t0", "2\tbark\t_\t_\t_\t_\t_"))

    until_parsed(page, lambda: page.click("#parse"))

    assert said(page, "#sentence-text") == "Dogs bark"
    page.click("#timeline button >> nth=0")
    assert arcs(page) == {"1": [2, "nsubj"]}
    assert "1 of 2 words have a head" in said(page, "#step-title")


def test_a_sentence_can_be_chosen(page, served):
    parse(page, served, "Nobody knew why. They left.")

    page.select_option("#sentences", "2")

    assert said(page, "#sentence-text") == "They left."
    assert page.locator("#drawing text.form").all_text_contents() == ["They", "left", "."]


def test_a_model_can_be_chosen(page, served):
    parse(page, served, DOGS)

    answer = until_parsed(page, lambda: page.select_option("#model", "tiny"))

    assert answer.json()["model"] == "tiny"


def test_confidence_is_shown_next_to_labels_and_can_be_hidden(page, served):
    parse(page, served, GARDEN)
    page.click("#timeline button >> nth=1")
    label = "#drawing g[role=button][data-word='7'] text"
    assert re.fullmatch(r"nsubj 0\.\d\d\?", page.text_content(label))  # doubt is shown by more than colour
    assert "not sure" in said(page, "#legend")

    page.uncheck("#confidence")

    assert page.is_hidden(f"{label} .sure")
    assert "not sure" not in said(page, "#legend")


def test_the_table_has_the_arcs_of_the_drawing(page, served):
    parse(page, served, GARDEN)
    page.click("summary")

    rows = [row.split("\t") for row in page.locator("#table tbody tr").all_inner_texts()]

    words = WORDS
    assert [row[:2] for row in rows] == [[str(number), word] for number, word in enumerate(words, 1)]
    heads = [f"{head} {words[head - 1] if head else 'ROOT'}" for head, _ in SECOND.values()]
    assert [row[5:7] for row in rows] == [
        [head, label] for head, (_, label) in zip(heads, SECOND.values(), strict=True)
    ]
    assert all(0 < float(row[7]) <= 1 for row in rows)


def test_the_drawing_and_the_trees_can_be_downloaded(page, served, tmp_path):
    parse(page, served, "Nobody knew why. They left.")

    for button in ("#save-svg", "#save-conllu"):
        with page.expect_download() as download:
            page.click(button)
        download.value.save_as(tmp_path / download.value.suggested_filename)

    svg = (tmp_path / "sentence-1-graph-2.svg").read_text()
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "<style>" in svg
    assert [each.forms for each in read_treebank(tmp_path / "trees.conllu")] == [
        ("Nobody", "knew", "why", "."),
        ("They", "left", "."),
    ]


def test_an_error_is_one_line_with_its_place_and_a_hint(page, served):
    parse(page, served, GARDEN)
    page.fill("#text", DOGS.replace("\t2\tnsubj", "\t7\tnsubj"))

    until_parsed(page, lambda: page.click("#parse"))

    reported = said(page, "#problem")
    assert re.match(r"Line 1, sentence 1, word 1: HEAD is 7 but the sentence has 2 words\. Write .+", reported)
    assert page.is_hidden("#again")  # the same would fail again
    assert arcs(page) == SECOND  # the last tree is still shown


def test_a_text_without_words_is_an_error(page, served):
    start(page, served)
    page.fill("#text", "  ")

    until_parsed(page, lambda: page.click("#parse"))

    assert "Type" in said(page, "#problem")


def test_a_busy_server_is_retried_automatically_and_a_missing_one_on_request(new_page, served):
    page, asked = new_page(), []
    page.clock.install()  # the test controls the time that the page waits

    def busy_once(route):
        asked.append(route)
        if len(asked) == 1:
            body = '{"error": {"status": 503, "message": "The queue is full."}}'
            route.fulfill(status=503, headers={"Retry-After": "1"}, content_type="application/json", body=body)
        elif len(asked) == 3:
            route.abort()
        else:
            route.continue_()

    start(page, served)
    page.route("**/v1/steps", busy_once)
    page.click("#parse")
    page.wait_for_selector("#busy >> text=Trying again in 1 s")
    page.clock.run_for(1000)
    page.wait_for_selector("#drawing svg")
    assert len(asked) == 2
    assert said(page, "#problem") == ""

    page.click("#parse")
    page.wait_for_selector("#again")
    assert "The server does not answer." in said(page, "#problem")
    until_parsed(page, lambda: page.click("#again"))
    assert said(page, "#problem") == ""


def test_an_error_of_the_page_itself_is_shown_and_ends_the_waiting(browser, served):
    page = browser.new_page()
    page.route("**/v1/steps", lambda route: route.fulfill(json={"sentences": [{"text": "Dogs"}]}))

    start(page, served)
    page.click("#parse")
    page.wait_for_selector("#problem-text >> text=The page failed")

    assert said(page, "#busy") == ""
    assert page.get_attribute("#drawing", "aria-busy") is None
    page.close()


@pytest.mark.parametrize("width", [320, 360])
def test_on_a_phone_the_page_does_not_scroll_sideways(new_page, served, width):
    page = new_page()
    page.set_viewport_size({"width": width, "height": 640})
    open_link(page, served, "Nobody knew why the committee had decided whatever it was that it had decided. Why?")
    page.click("summary")
    click_arc(page, 2)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.getElementById('panel').getBoundingClientRect().right") <= width
    assert page.evaluate("document.getElementById('drawing').scrollWidth") > width  # that does


def test_right_to_left_words_are_drawn_from_the_right_but_columns_are_not(new_page, served):
    page = new_page()
    page.set_viewport_size({"width": 320, "height": 640})
    open_link(page, served, conllu(HEBREW * 3), initial="given", model="tiny")

    places = page.eval_on_selector_all("#drawing text.form", "all => all.map(each => each.getBoundingClientRect().x)")

    assert places == sorted(places, reverse=True)
    assert 0 < places[0] < 320  # the first word is visible
    assert page.get_attribute("#text", "dir") == "ltr"
    assert page.evaluate("getComputedStyle(document.getElementById('sentence-text')).direction") == "rtl"


def test_every_control_has_an_accessible_name_and_is_large_enough_to_click(page, served):
    open_link(page, served, "Nobody knew why. They left.", decide="1 1 head 2")
    page.click("summary")
    script = """all => all.filter(each => each.checkVisibility()).map(each => {
        const box = (each.closest('label') ?? each).getBoundingClientRect();
        const name = each.ariaLabel || each.labels?.[0]?.innerText || each.innerText;
        return [each.outerHTML.slice(0, 60), (name ?? '').trim(), Math.min(box.width, box.height)];
    })"""

    controls = page.eval_on_selector_all("button, input, select, textarea, summary", script)
    click_arc(page, 1)
    in_panel = page.eval_on_selector_all("#panel button, #panel select", script)

    assert len(controls) > 20
    assert len(in_panel) == 11
    for control, name, size in controls + in_panel:
        assert name, control
        assert size >= 24, control
    tree = page.locator("main").aria_snapshot()
    assert 'heading "Nobody knew why." [level=2]' in tree
