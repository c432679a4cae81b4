"""Links of the page, in a real browser: what they hold, what is left out, and what they cannot do."""

from tests.support.pages import click_arc, conllu, copied_link, link, open_link, parse, said, until_parsed


def test_a_link_shows_the_same_page_and_the_address_never_contains_the_text_before_it_is_copied(page, new_page, served):
    other = new_page()
    parse(page, served, "Nobody knew why. My debut novel is about two children stealing a crown.")
    page.select_option("#sentences", "2")
    click_arc(page, 3)
    until_parsed(page, lambda: page.click("text=Forbid this head"))
    page.click("#previous")

    assert page.url == served  # the history of a browser keeps addresses

    other.goto(copied_link(page))
    other.wait_for_selector("#drawing svg")

    for each in ("#sentence-text", "#step-title", "#decisions"):
        assert said(other, each) == said(page, each)
    assert other.inner_html("#drawing") == page.inner_html("#drawing")


def test_a_link_remembers_that_a_mark_of_the_text_was_removed(page, served):
    marked = conllu([("Dogs", 0, "root"), ("bark", 1, "dep")]).replace("root\t_\t_", "root\t_\tKeep=Arc")
    parse(page, served, marked)
    until_parsed(page, lambda: page.click("#clear"))

    copied = copied_link(page)
    page.goto("about:blank")
    page.goto(copied)
    page.wait_for_selector("#drawing svg")

    assert page.is_hidden("#decided")


def test_the_link_is_copied_or_shown_if_copying_is_not_allowed(page, served):
    open_link(page, served, "Dogs bark.", initial="empty", steps=3, model="en")

    copied = copied_link(page)
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')) }")
    page.click("#copy-link")
    page.wait_for_selector("#copied >> text=Copy it from this field")

    assert copied == link(served, "Dogs bark.", initial="empty", steps=3, model="en")
    assert page.input_value("#link") == copied


def test_a_text_too_long_for_a_link_is_parsed_without_a_link(page, served):
    parse(page, served, "Dogs bark." + 32_000 * " ")

    page.click("#copy-link")

    assert "too long for a link. Download" in said(page, "#copied")
    assert page.is_hidden("#link")


def test_a_note_lists_what_the_server_lacks_for_a_link_until_the_next_request(page, served):
    open_link(page, served, "Dogs bark.", model="tr", initial="own", steps=12)

    assert said(page, "#note") == (
        "The link asks for the model tr, which this server does not have. Using en. "
        "en has no initial parser. Starting from an empty graph. "
        "The link asks for 12 steps, but the maximum is 8."
    )
    assert said(page, "#steps-value") == "8"
    until_parsed(page, lambda: page.click("#parse"))
    assert said(page, "#note") == ""


def test_code_in_a_link_or_a_word_is_not_executed(page, served):
    attack = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
    open_link(
        page,
        served,
        conllu([(attack, 0, attack), ("x", 1, '"><script>')]),
        initial="given",
        steps="9e9",
        model=attack,
        decide=f"1 1 label {attack}",
        sentence="-1",
        t="<b>",
    )
    click_arc(page, 1)

    assert page.title() == "treefine"
    assert page.locator("img, script:not([src])").count() == 0
    assert attack in page.inner_text("#decisions")
