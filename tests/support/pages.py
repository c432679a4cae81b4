"""What a person does on the page, and what there is to see."""

from urllib.parse import urlencode

GARDEN = "Fat people eat accumulates."  # the first graph of the bundled model has a cycle, and the second another root
HEBREW = [("אני", 2, "nsubj"), ("אוהב", 0, "root"), ("חתולים", 2, "obj")]


def conllu(words):
    """The lines of one sentence, its words as form, head and label."""
    lines = (
        f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{label}\t_\t_\n" for number, (form, head, label) in enumerate(words, 1)
    )
    return "".join(lines) + "\n"


def link(served, text, **fields):
    return f"{served}#{urlencode({'text': text, **fields})}"


def open_link(page, served, text, **fields):
    page.goto(link(served, text, **fields))
    page.wait_for_selector("#drawing svg")


def start(page, served):
    """Open the page, and wait for the example: it stands there once the models are known."""
    page.goto(served)
    page.wait_for_selector("#read-as:not(:empty)")


def parse(page, served, text):
    """Open the page, type a text, parse it."""
    start(page, served)
    page.fill("#text", text)
    page.click("#parse")
    page.wait_for_selector("#drawing svg")


def said(page, selector):
    """A text as a person sees it, without what sets words of other scripts apart."""
    return page.inner_text(selector).replace("\u2068", "").replace("\u2069", "")


def arcs(page):
    """The head and label of each word that has an arc in the drawing."""
    return page.eval_on_selector_all(
        "#drawing g[role=button]",
        "all => Object.fromEntries(all.map(({dataset}) => [dataset.word, [+dataset.head, dataset.label]]))",
    )


def classes(page, word):
    return page.get_attribute(f"#drawing g[role=button][data-word='{word}']", "class").split()


def click_arc(page, word):
    page.click(f"#drawing g[role=button][data-word='{word}']")
    page.wait_for_selector("#panel[open]")


def copied_link(page):
    """The link that the page gives away."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.bring_to_front()
    page.click("#copy-link")
    page.wait_for_selector("#copied >> text=Copied.")
    return page.evaluate("navigator.clipboard.readText()")


def until_parsed(page, action):
    """Do what makes the page ask the server, and wait for what it shows then."""
    with page.expect_response("**/v1/steps") as answer:
        action()
    page.wait_for_selector("#busy:empty", state="attached")
    return answer.value
