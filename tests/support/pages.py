"""Actions of a person on the web page, and the contents that the person sees."""

# The first graph of the bundled model has a cycle: children (7) and stealing (8). Its second graph has a root.
GARDEN = "My debut novel is about two children stealing a crown."
HEBREW = [("אני", 2, "nsubj"), ("אוהב", 0, "root"), ("חתולים", 2, "obj")]


def conllu(words):
    """Return the lines of one sentence; each word is given as form, head and label."""
    lines = (
        f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{label}\t_\t_\n" for number, (form, head, label) in enumerate(words, 1)
    )
    return "".join(lines) + "\n"


def start(page, served):
    """Open the page and wait for the example, which appears when the models are known."""
    page.goto(served)
    page.wait_for_selector("#read-as:not(:empty)")


def parse(page, served, text, *, model=None):
    """Open the page, type a text and parse it."""
    start(page, served)
    if model:
        page.select_option("#model", model)
    page.fill("#text", text)
    page.click("#parse")
    page.wait_for_selector("#drawing svg")


def arcs(page):
    """Return the head and label of each word that has an arc in the drawing."""
    return page.eval_on_selector_all(
        "#drawing g[data-head]:not(.old)",
        "all => Object.fromEntries(all.map(({dataset}) => [dataset.word, [+dataset.head, dataset.label]]))",
    )


def until_parsed(page, action):
    """Run an action that makes the page call the server, and wait until the page shows the result."""
    with page.expect_response("**/v1/steps") as answer:
        action()
    page.wait_for_selector("#busy:empty", state="attached")
    return answer.value
