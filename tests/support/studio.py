"""A studio with small treebanks: its files, a stub of the parser, and what a person does and sees in its page."""

import re
import threading
import time
from dataclasses import dataclass, field, replace

from tests.support.commands import read
from treefine.studio.actions import Action, act, decisions_of, set_arcs
from treefine.studio.partner import DOUBTFUL, Advice, Suggestion
from treefine.studio.project import Reference

POLL = 1600  # milliseconds after which the page has asked for the state of the server


def conllu(text):
    """Return CoNLL-U from a table whose columns are separated by spaces."""
    lines = (line if line.startswith("#") else "\t".join(line.split()) for line in text.strip().split("\n"))
    return "\n".join(lines) + "\n\n"


STARS = conllu("""
# sent_id = stars
# text = She saw two stars.
1 She   she  PRON  PRP Case=Nom    2 nsubj  _ _
2 saw   see  VERB  VBD Tense=Past  0 root   _ _
3 two   two  NUM   CD  _           4 nummod _ _
4 stars star NOUN  NNS Number=Plur 2 obj    _ SpaceAfter=No
5 .     .    PUNCT .   _           2 punct  _ _
""")
DOG = conllu("""
# sent_id = dog
# text = The old dog slept near the door.
1 The   the   DET   DT  _           3 det   _ _
2 old   old   ADJ   JJ  Degree=Pos  3 amod  _ _
3 dog   dog   NOUN  NN  Number=Sing 4 nsubj _ _
4 slept sleep VERB  VBD Tense=Past  0 root  _ _
5 near  near  ADP   IN  _           7 case  _ _
6 the   the   DET   DT  _           7 det   _ _
7 door  door  NOUN  NN  Number=Sing 4 obl   _ SpaceAfter=No
8 .     .     PUNCT .   _           4 punct _ _
""")
RAIN = conllu("""
# sent_id = rain
# text = Rain fell.
1 Rain rain NOUN  NN  Number=Sing 2 nsubj _ _
2 fell fall VERB  VBD Tense=Past  0 root  _ SpaceAfter=No
3 .    .    PUNCT .   _           2 punct _ _
""")
TREES = STARS + DOG + RAIN


# Files


DONE = Action("status", value="done")


def change(document, action, *, key=1, id="one", **options):
    """Do one action to a sentence."""
    keys, sentences = act(document, key, action)
    return document.replace(keys, sentences, what=action.do, id=id, **options)


def reference(text, name="B"):
    """Return the file of another annotator."""
    return Reference(name, tuple(read(text)))


def label(word, name):
    """Return the action that changes a label."""
    return Action("label", word=word, label=name)


def texts(document):
    """Return the texts of all sentences, in order."""
    return [document.text(key) for key in document.keys]


def arc_of(document, word, key=1):
    """Return the head and label of a word in the document."""
    sentence = document.sentence(key)
    return sentence.heads[word - 1], sentence.labels[word - 1]


def arcs_by_word(sentence):
    """Return the head and label of each word by its number."""
    return {word.number: (word.head, word.label) for word in sentence}


def decided(document, key=1):
    """Return the words whose arcs are decided."""
    constraints = decisions_of(document.sentence(key))
    return sorted({*constraints.heads} & {*constraints.labels})


def as_left_by_a_kill(document, place):
    """Copy a file and its folder as they are on disk now, and return the path of the copy."""
    files = [*document.path.parent.glob(f"*{document.path.name}*"), *document.folder.glob("*")]
    for path in files:  # also a temporary file
        if path.is_file() and path.name != "lock":
            copy = place / path.relative_to(document.path.parent)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return place / document.path.name


def until(condition):
    """Wait until another thread or process has made a condition true."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


# The parser


@dataclass
class Stub:
    """A parser whose answers are written in the test. It has the methods of `treefine.studio.partner.Partner`."""

    confidences: dict = field(default_factory=dict)  # the confidence in the arc of a word; all others have 0.97
    suggests: dict = field(default_factory=dict)  # by word: head and label
    follows: dict = field(default_factory=dict)  # by the word and head of a correction: arcs that the parser changes
    parses: tuple = ()  # the arcs in which its own tree differs
    labels: tuple = ()
    name: str = "stub"
    fault: str = ""
    is_ready: bool = True

    def __post_init__(self):
        self.may_answer = threading.Event()  # a test clears it to let the page wait
        self.may_answer.set()
        self.may_load = threading.Event()

    def wait(self):
        """Return at once."""

    def close(self):
        self.may_answer.set()

    def use(self, name):
        self.name = name

    def advise(self, sentence):
        self.may_answer.wait()
        arcs, (advice,) = arcs_by_word(sentence), self.rate([sentence])
        free = {word: arc for word, arc in self.suggests.items() if word not in decisions_of(sentence).heads}
        suggestions = [Suggestion(word, *arc) for word, arc in free.items() if arcs.get(word, arc) != arc]
        return replace(advice, suggestions=tuple(suggestions))

    def rate(self, sentences):
        return [Advice(tuple(self._confidence(word, decisions_of(each).heads) for word in each)) for each in sentences]

    def _confidence(self, word, decided):
        return None if word.head is None else 1.0 if word.number in decided else self.confidences.get(word.number, 0.97)

    def follow(self, before, after):
        self.may_answer.wait()
        decided, old, new = decisions_of(after), arcs_by_word(before), arcs_by_word(after)
        arcs = [
            arc
            for (word, head), arcs in self.follows.items()
            if word in new and new[word][0] == head and new[word] != old[word]
            for arc in arcs
            if arc[0] not in decided.heads or arc[0] not in decided.labels
        ]
        followed = set_arcs(after, arcs)
        return None if followed == after else followed

    def parse(self, sentence):
        self.may_answer.wait()
        decided = decisions_of(sentence)
        return set_arcs(sentence, [arc for arc in self.parses if arc[0] not in decided.heads])


assert DOUBTFUL == 0.8  # tests choose confidences below and above it


# What the person sees


def said(page, selector):
    """Return a text as a person sees it, without the invisible isolates around words."""
    return page.inner_text(selector).replace("\u2068", "").replace("\u2069", "")


def shown_arc(page, word):
    """Return the arc of a word as the page describes it, such as "obj of saw"."""
    described = page.get_attribute(f"#word-{word}", "aria-label")
    return re.search(r", ([^,]+ of [^,]+|no head)(, decided)?(, \d+% sure)?$", described)[1]


def until_arc(page, word, arc, *, is_decided=None):
    """Wait until the page shows this arc, such as "obj of saw"; with `is_decided`, also whether a person decided it."""
    tail = {None: "", True: ", decided", False: ""}[is_decided]
    page.wait_for_selector(f"#word-{word}[aria-label*=', {arc}{tail}']")
    if is_decided is not None:
        assert (", decided" in page.get_attribute(f"#word-{word}", "aria-label")) is is_decided
        assert ("kept" in page.get_attribute(f"#tree .arc[data-word='{word}']", "class").split()) is is_decided


def selected(page):
    """Return the numbers of the selected words."""
    words = page.eval_on_selector_all("#tree .word.selected", "all => all.map(({dataset}) => +dataset.word)")
    return words[0] if len(words) == 1 else words or None


def measured(page, name, argument=None):
    """Return a measurement of the page; see studio_measures.js."""
    return page.evaluate(f"argument => measures.{name}(argument)", argument)


def focused(page):
    """Return the id of the element that has the focus, or its class."""
    return page.evaluate("document.activeElement.id || document.activeElement.className")


# What the person does


def form(page, word):
    return page.locator(f"#tree .word[data-word='{word}'] .form")


def middle(page, locator):
    """Return the middle of an element, in pixels of the window."""
    while (box := locator.bounding_box()) is None:  # the page has just drawn the element again
        locator.wait_for()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page, word, head):
    """Drag a word onto its head, or onto ROOT if the head is 0."""
    page.mouse.move(*middle(page, form(page, word)))
    page.mouse.down()
    page.mouse.move(*middle(page, form(page, head or word)), steps=2)
    if head == 0:
        page.mouse.move(*middle(page, page.locator("#tree .root-bar")), steps=2)
    page.mouse.up()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def until_done(page):
    """Wait until everything that the person did is done."""
    page.evaluate("import('./page/state.js').then(({ queued }) => queued(() => {}))")


def go_to(page, word):
    """Select a word with the keyboard."""
    press(page, "Home", *["ArrowRight"] * (word - 1))
    assert selected(page) == word


def until_sentence(page, sent_id):
    """Wait until a sentence is shown."""
    page.wait_for_function("id => document.getElementById('place').textContent.includes(` · ${id}`)", arg=sent_id)
