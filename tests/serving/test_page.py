"""The page in a real browser: parsing, looking, stepping, leaving with a file. tests/slow has more."""

import re
from xml.etree import ElementTree

from tests.support.pages import GARDEN, arcs, conllu, parse, start, until_parsed
from treefine.treebank.conllu import read_treebank

HEADS = [3, 3, 7, 7, 7, 7, 0, 7, 10, 8, 7]
LABELS = "nmod:poss amod nsubj cop case nummod root acl det obj punct".split()
SECOND = {str(word): [head, label] for word, (head, label) in enumerate(zip(HEADS, LABELS, strict=True), start=1)}
FIRST = SECOND | {"7": [8, "nsubj"]}
WORDS = [*GARDEN.removesuffix(".").split(), "."]


def test_the_example_is_parsed_and_buttons_keys_and_the_timeline_step_through_its_graphs(page, served):
    start(page, served)
    page.focus("#text")
    assert page.is_hidden("#result")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#drawing svg")

    assert page.inner_text("#sentence-text") == GARDEN
    assert page.locator("#timeline button").all_inner_texts() == ["G⁰", "G¹", "G²", "G³"]
    assert page.is_disabled("#next")
    assert "no arc changed. All arcs are right with probability 0." in page.inner_text("#step-title")
    page.click("#previous")
    assert "step 2: 1 arc changed" in page.inner_text("#step-title")
    changed = page.eval_on_selector_all("#drawing g.changed", "all => [...new Set(all.map(each => each.dataset.word))]")
    assert changed == ["7"]
    assert page.locator("#drawing g.old").count() == 2  # a line and a label
    assert "changed in this step" in page.inner_text("#legend")
    page.focus("#drawing")
    page.keyboard.press("ArrowLeft")
    assert arcs(page) == FIRST
    page.keyboard.press("ArrowLeft")
    assert "initial graph: empty" in page.inner_text("#step-title")
    assert arcs(page) == {}
    assert page.locator("#drawing text.form").all_text_contents() == WORDS
    page.click("#timeline button >> nth=2")
    assert page.get_attribute("#timeline button >> nth=2", "aria-current") == "step"
    assert arcs(page) == SECOND
    page.focus("#steps")
    until_parsed(page, lambda: page.keyboard.press("Home"))
    # One step ends in a cycle: the tree is another graph.
    assert page.locator("#timeline button").all_inner_texts() == ["G⁰", "G¹", "tree"]


def test_sentences_can_be_chosen_and_downloaded(page, served, tmp_path):
    parse(page, served, "Nobody knew why. They left.")
    page.select_option("#sentences", "1")
    assert page.inner_text("#sentence-text") == "They left."
    assert page.locator("#drawing text.form").all_text_contents() == ["They", "left", "."]

    for button in ("#save-svg", "#save-conllu"):
        with page.expect_download() as download:
            page.click(button)
        download.value.save_as(tmp_path / download.value.suggested_filename)

    (svg,) = (each.read_text() for each in tmp_path.glob("sentence-2-graph-*.svg"))
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "<style>" in svg
    sentences = [each.forms for each in read_treebank(tmp_path / "trees.conllu")]
    assert sentences == [("Nobody", "knew", "why", "."), ("They", "left", ".")]


def test_confidence_is_shown_next_to_labels_and_in_the_table_and_can_be_hidden(page, served):
    parse(page, served, GARDEN)
    page.click("summary")
    rows = [row.split("\t") for row in page.locator("#table tbody tr").all_inner_texts()]
    assert [row[:2] for row in rows] == [[str(number), word] for number, word in enumerate(WORDS, 1)]
    heads = [f"{head} {WORDS[head - 1] if head else 'ROOT'}" for head, _ in SECOND.values()]
    assert [row[5:7] for row in rows] == [[head, label] for head, label in zip(heads, LABELS, strict=True)]
    assert all(0 < float(row[7]) <= 1 for row in rows)

    page.click("#timeline button >> nth=1")
    label = "#drawing g[data-word='7']:not(.old) text"
    assert re.fullmatch(r"nsubj 0\.\d\d\?", page.text_content(label))  # doubt is shown by more than colour
    assert "not sure" in page.inner_text("#legend")
    page.uncheck("#confidence")
    assert page.is_hidden(f"{label} .sure")
    assert "not sure" not in page.inner_text("#legend")


def test_an_error_is_one_line_with_its_place_and_a_hint_and_the_last_tree_stays(page, served):
    parse(page, served, GARDEN)
    page.fill("#text", conllu([("Dogs", 7, "nsubj"), ("bark", 0, "root")]))
    assert page.inner_text("#read-as") == "Its words are read as CoNLL-U."
    until_parsed(page, lambda: page.click("#parse"))

    reported = page.inner_text("#problem")
    assert re.match(r"Line 1, sentence 1, word 1: HEAD is 7 but the sentence has 2 words\. Write .+", reported)
    assert page.is_hidden("#again")  # the same would fail again
    assert arcs(page) == SECOND


def test_a_model_and_its_languages_can_be_chosen(page, served):
    parse(page, served, "Hunden sover under bordet och katten ligger på soffan.", model="multi")
    assert page.locator("#language option").all_inner_texts() == ["detect", "Danish", "Swedish"]
    assert page.inner_text("#language-found") == "Detected: Swedish"

    answer = until_parsed(page, lambda: page.select_option("#language", label="Danish"))
    assert answer.request.post_data_json["language"] == "da"
    assert page.inner_text("#language-found") == ""

    page.fill("#text", conllu([("Dogs", 2, "nsubj"), ("bark", 0, "root")]))  # the model reads no text
    answer = until_parsed(page, lambda: page.select_option("#model", "tiny"))
    assert answer.json()["model"] == "tiny"
    assert page.is_hidden("#language")


def test_a_busy_server_is_retried_automatically_and_a_missing_one_on_request(new_page, served):
    page, requests = new_page(), []
    page.clock.install()  # the test controls the time that the page waits

    def busy_once(route):
        requests.append(route)
        if len(requests) == 1:
            body = '{"error": {"status": 503, "message": "The queue is full."}}'
            route.fulfill(status=503, headers={"Retry-After": "1"}, content_type="application/json", body=body)
        elif len(requests) == 3:
            route.abort()
        else:
            route.continue_()

    start(page, served)
    page.route("**/v1/steps", busy_once)
    page.click("#parse")
    page.wait_for_selector("#busy >> text=Trying again in 1 s")
    page.clock.run_for(1000)
    page.wait_for_selector("#drawing svg")
    assert page.inner_text("#problem") == ""

    page.click("#parse")
    page.wait_for_selector("#again")
    assert "The server does not answer." in page.inner_text("#problem")
    until_parsed(page, lambda: page.click("#again"))
    assert page.inner_text("#problem") == ""


def test_code_in_a_text_is_not_executed(page, served):
    attack = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
    parse(page, served, conllu([(attack, 0, attack), ("x", 1, '"><script>')]))

    assert page.title() == "treefine"
    assert page.locator("img, script:not([src])").count() == 0
    assert attack in page.inner_text("#sentence-text")
