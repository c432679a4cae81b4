"""Project: the files that are open in the studio, other annotators' trees, the queue of sentences, and progress."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal

from treefine.errors import TreefineError
from treefine.evaluation.agreement import Agreement, annotator_agreement, differences, tag_differences
from treefine.studio.actions import Action, act, confirmed
from treefine.studio.checks import Checker
from treefine.studio.document import Document, StaleError, Status
from treefine.studio.journal import Revision
from treefine.studio.partner import Advice, Partner
from treefine.treebank.conllu import read_treebank
from treefine.treebank.raw_text import own_text
from treefine.treebank.search import Query, read_query
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.studio.learn import CorrectionLearner

Order = Literal["file", "doubt", "difference"]
Show = Literal["all", "open", "done", "doubtful", "changed"]
_FOLLOWED = ("arc", "label", "tree", "forbid", "free")  # actions after which the parser looks at the rest of the tree
_RATED_AT_ONCE, _RATED_WHEN_IDLE = 4, 32  # sentences that the parser reads at a time
_PAUSE, _IDLE = 1.0, 5.0  # seconds after the last action until the parser reads on, and until it reads more at a time
_UNIVERSAL = (  # the labels of UD, which are never typing mistakes
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl fixed "
    "flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative xcomp"
).split()
_TAGS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()


@dataclass(frozen=True)
class Reference:
    """Trees of another annotator or parser for the same sentences."""

    name: str
    sentences: tuple[Sentence, ...]

    @classmethod
    def read(cls, path: str, name: str | None = None) -> Reference:
        """Read a file."""
        return cls(name or path, tuple(read_treebank(path)))

    @cached_property
    def by_id(self) -> Mapping[str, Sentence]:
        """The sentences by sent_id."""
        return {each.sent_id: each for each in self.sentences if each.sent_id}


class Inventory:
    """The values that a treebank has in its columns, the most frequent first."""

    def __init__(self, texts: Collection[str]) -> None:
        counts: list[Counter[str]] = [Counter() for _ in range(10)]
        for text in texts:
            rows = [line.split("\t") for line in text.split("\n") if line[:1].isdecimal()]
            for column in (3, 4, 5, 7):
                counts[column].update([row[column] for row in rows if len(row) == 10])
        self.labels = [each for each, _ in counts[7].most_common() if each != BLANK]
        self.upos = list(dict.fromkeys([*(each for each, _ in counts[3].most_common() if each != BLANK), *_TAGS]))
        self.xpos = [each for each, _ in counts[4].most_common(300) if each != BLANK]
        pairs: Counter[str] = Counter()
        for feats, count in counts[5].items():
            pairs.update(dict.fromkeys(feats.split("|"), count) if feats != BLANK else {})
        self.feats = [each for each, _ in pairs.most_common(500)]

    def add_label(self, label: str) -> None:
        """Remember a label that a person insisted on."""
        if label not in (*self.labels, BLANK):
            self.labels.append(label)


@dataclass(frozen=True)
class QueueRow:
    """A sentence in the queue."""

    key: int
    number: int  # its place in the file, from 1
    sent_id: str
    text: str
    status: Status
    is_changed: bool
    doubt: float | None  # the expected number of wrong arcs; None if the parser has not read it yet
    n_different: int | None  # words that differ between the other annotators; None without other annotators


class Project:
    """The files that a person works on. There may be references: the trees of other annotators."""

    def __init__(
        self,
        documents: Sequence[Document],
        *,
        partner: Partner | None = None,
        references: Sequence[Reference] = (),
        languages: Sequence[str] = (),
        learner: CorrectionLearner | None = None,
        is_example: bool = False,
        is_shown: threading.Event | None = None,
    ) -> None:
        self.documents, self.partner, self.references, self.learner = documents, partner, references, learner
        self.is_example = is_example
        self.is_shown = is_shown or threading.Event()  # whether the page has shown a sentence
        self._languages = tuple(languages)
        self.checkers = [Checker(each) for each in (*languages, *[""] * (len(documents) - len(languages)))]
        self._ratings: dict[str, float] = {}  # the expected number of wrong arcs, by the text of a sentence
        self._inventories: dict[int, Inventory] = {}
        self._is_closed = False
        self._last_asked = 0.0  # when a person last needed the parser
        threading.Thread(target=self._warm_up, daemon=True).start()
        self._news = threading.Event()  # there may be sentences that the parser has not read
        self._rater = threading.Thread(target=self._rate, daemon=True)
        if partner is not None:
            self._news.set()
            self._rater.start()

    def document(self, file: int) -> Document:
        """Return one of the files, counted from 0."""
        if not 0 <= file < len(self.documents):
            raise TreefineError(f"There is no file {file}.", hint=f"There are {len(self.documents)}.")
        return self.documents[file]

    def partner_of(self, file: int) -> Partner | None:
        """Return the parser, if it is loaded and knows the language of a file, which is that of the first file."""
        is_known = file >= len(self._languages) or self._languages[file] == self._languages[0]
        return self.partner if self.partner is not None and self.partner.is_ready and is_known else None

    def inventory(self, file: int) -> Inventory:
        """Return the values in the columns of a file."""
        if file not in self._inventories:
            document = self.document(file)
            with document.lock:
                texts = [document.text(key) for key in document.keys]
            self._inventories[file] = Inventory(texts)
        return self._inventories[file]

    # Changing

    def edit(
        self, file: int, key: int, version: int, id: str, action: Action, *, confirms: bool = False
    ) -> Revision | None:
        """Make a change. With `confirms`, a person who attaches a word has read and accepted all words before it."""
        document, inventory = self.document(file), self.inventory(file)
        with document.lock:
            if known := document.made(id):
                return known
            self._last_asked = monotonic()
            if document.version(key) != version:
                raise StaleError("This sentence was changed in another tab.", hint="It is shown as it is now.")
            keys, sentences = act(document, key, action, labels=self.known_labels(file))
            if confirms and action.do in ("arc", "label") and action.word:
                sentences = [confirmed(sentences[0], range(1, action.word))]
            change = document.replace(keys, sentences, what=action.do, id=id)
        for label in {label for each in sentences for label in each.labels}:  # also from lines or another annotator
            inventory.add_label(label)
        self._news.set()
        return change

    def known_labels(self, file: int) -> frozenset[str]:
        """Return the labels that are not taken for typing mistakes."""
        of_model = self.partner.labels if self.partner is not None else ()
        return frozenset([*self.inventory(file).labels, *of_model, *_UNIVERSAL])

    def follow(self, file: int, key: int, version: int, id: str) -> Revision | None:
        """Let the parser change what follows from the last change of a sentence; return None if nothing does."""
        document = self.document(file)
        partner = self.partner_of(file)
        if partner is None:
            return None
        with document.lock:
            if known := document.made(id):
                return known
            last = document.last_change
            if last is None or last.is_follow_up or last.what not in _FOLLOWED or document.version(key) != version:
                return None
            if not [each.key for each in last.before] == [each.key for each in last.after] == [key]:
                return None
            before, after = document.read(last.before[0].text), document.sentence(key)
        if not isinstance(before, Sentence) or not isinstance(after, Sentence):
            return None
        self._last_asked = monotonic()
        found = partner.follow(before, after)
        if found is None:
            return None
        try:
            return document.replace([key], [found], what=last.what, id=id, versions=[version], is_follow_up=True)
        except StaleError:  # the person was faster
            return None
        finally:
            self._news.set()

    def undo(
        self, file: int, id: str, *, is_redo: bool = False, is_refusal: bool = False, revision: int | None = None
    ) -> Revision | None:
        """Take back the last change of a file, or make it again. Refuse that if `revision` is not the newest one.

        With `is_refusal`, take back what the parser changed, but not the correction that it followed.
        """
        document = self.document(file)
        with document.lock:
            if revision not in (None, document.revision) and document.made(id) is None:
                raise StaleError("The file was changed in another tab.", hint="Look at it before you undo.")
            change = document.redo(id) if is_redo else document.undo(id, is_refusal=is_refusal)
        self._news.set()
        return change

    # Reading

    def queue(
        self, file: int, *, order: Order = "file", show: Show = "all", search: str = ""
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Return the keys of the sentences to look at, in order, each with the words that a search found."""
        document = self.document(file)
        query = read_query(search) if search.strip() else None
        found = list(self._matching(document, show, query))
        if order == "file":
            return found
        ranks = {key: self._rank(file, key, order) for key, _ in found}
        return sorted(found, key=lambda each: -ranks[each[0]])

    def n_differing(self, file: int, keys: Iterable[int]) -> int:
        """Return how many of these sentences differ between the annotators."""
        return sum(self._rank(file, key, "difference") > 0 for key in keys)

    def _rank(self, file: int, key: int, order: Order) -> float:
        document = self.document(file)
        try:
            return (self.doubt(document, key) if order == "doubt" else self._n_different(file, document, key)) or 0
        except StaleError:  # it was joined with another one in the meantime
            return 0

    def _matching(self, document: Document, show: Show, query: Query | None) -> Iterator[tuple[int, tuple[int, ...]]]:
        for key in list(document.keys):
            try:
                if show == "changed" and not document.is_changed(key):
                    continue
                if show not in ("all", "changed") and document.status(key) != show:
                    continue
                if query is None:
                    yield key, ()
                    continue
                sentence = document.sentence(key)
            except StaleError:  # it was joined with another one in the meantime
                continue
            match = query.first(sentence) if isinstance(sentence, Sentence) else None
            if match is not None:
                yield key, match.words

    def row(self, file: int, key: int) -> QueueRow:
        """Return a sentence for the queue."""
        document = self.document(file)
        with document.lock:
            sentence = document.sentence(key)
            is_valid = isinstance(sentence, Sentence)
            return QueueRow(
                key,
                document.place(key) + 1,
                sentence.sent_id,
                own_text(sentence) if isinstance(sentence, Sentence) else sentence.faults[0].message,
                document.status(key),
                document.is_changed(key),
                self.doubt(document, key) if is_valid else None,
                self._n_different(file, document, key),
            )

    def doubt(self, document: Document, key: int) -> float | None:
        """Return the expected number of wrong arcs; none in a sentence that is done."""
        return 0.0 if document.status(key) == "done" else self._ratings.get(document.text(key))

    def others(self, file: int, key: int) -> list[tuple[str, Sentence | None]]:
        """Return the trees of other annotators for a sentence, by name; None if they do not have it.

        Sentences with the same sent_id belong together. Without one, the place counts, if only one file is edited.
        """
        if not self.references:
            return []
        document = self.document(file)
        sentence = document.sentence(key)
        found: list[tuple[str, Sentence | None]] = []
        for each in self.references:
            other = each.by_id.get(sentence.sent_id)
            if other is None and len(self.documents) == 1 and key <= len(each.sentences):
                same_place = each.sentences[key - 1]
                other = None if sentence.sent_id and same_place.sent_id else same_place
            found.append((each.name, other))
        return found

    def _n_different(self, file: int, document: Document, key: int) -> int | None:
        """Return how many words differ: between two references, or between the sentence and one reference."""
        others = [other for _, other in self.others(file, key)]
        if not others:
            return None
        sentence = document.sentence(key)
        compared = [*others, sentence] if len(others) == 1 else others
        first, second = compared[0], compared[1]
        if not isinstance(first, Sentence) or not isinstance(second, Sentence):
            return max((len(each) for each in compared if isinstance(each, Sentence)), default=0)
        words, tags = differences(first, second), tag_differences(first, second)
        if words is None or tags is None:
            return max(len(first), len(second))
        return len({*words, *(word for word, _, _ in tags)})

    @cached_property
    def agreement(self) -> Agreement | None:
        """The agreement of two annotators, as their files were at the start."""
        if not self.references:
            return None
        if len(self.references) > 1:
            return annotator_agreement(self.references[0].sentences, self.references[1].sentences)
        pairs = [
            (sentence, other)
            for file, document in enumerate(self.documents)
            for key, sentence in document.sentences()
            for _, other in self.others(file, key)
            if other is not None
        ]
        return annotator_agreement([one for one, _ in pairs], [other for _, other in pairs]) if pairs else None

    def advise(self, file: int, key: int) -> tuple[int, Advice | None]:
        """Return the version of a sentence and what the parser doubts in it; None without a parser."""
        document = self.document(file)
        with document.lock:
            version, text = document.version(key), document.text(key)
        sentence, partner = document.read(text), self.partner_of(file)
        if partner is None or not isinstance(sentence, Sentence):
            return version, None
        self._last_asked = monotonic()
        advice = partner.advise(sentence)
        self._ratings[text] = advice.n_wrong
        return version, advice

    def parse(self, file: int, key: int, version: int, id: str) -> Revision | None:
        """Replace the tree of a sentence by the parser's own; decided arcs stay."""
        document = self.document(file)
        partner = self.partner_of(file)
        if partner is None:
            raise TreefineError("There is no parser for this file, or not yet.", hint="Wait a few seconds.")
        found = partner.parse(document.valid_sentence(key))
        if found is None:
            raise TreefineError("No tree satisfies all decisions.", hint="Remove one of them.")
        return document.replace([key], [found], what="parse", id=id, versions=[version])

    # In the background

    def _warm_up(self) -> None:
        """Load the tables of the checks while the browser opens the page."""
        for each in self.checkers:
            each.warm_up()

    def _rate(self) -> None:
        """Read the sentences that nobody has read, a few at a time, and again what was changed."""
        assert self.partner is not None
        self.partner.wait()
        while not self._is_closed and self.partner.is_ready:
            self._news.wait()
            self._news.clear()
            unrated = self._unrated()
            while some := list(islice(unrated, self._n_at_once())):
                while monotonic() - self._last_asked < _PAUSE and not self._is_closed:
                    sleep(_PAUSE / 10)  # a person works, who would wait for this batch
                if self._is_closed:
                    return
                texts, sentences = zip(*some, strict=True)
                try:
                    advices = self.partner.rate(sentences)
                except (RuntimeError, CancelledError) as error:
                    if not self._is_closed:
                        self.partner.fault = f"The parser has stopped: {error}"
                    return
                self._ratings.update((text, advice.n_wrong) for text, advice in zip(texts, advices, strict=True))

    def _n_at_once(self) -> int:
        """Return how many sentences to read at a time: few while a person works, who would wait for them."""
        return _RATED_AT_ONCE if monotonic() - self._last_asked < _IDLE else _RATED_WHEN_IDLE

    def _unrated(self) -> Iterator[tuple[str, Sentence]]:
        read = [each for file, each in enumerate(self.documents) if self.partner_of(file) is not None]
        for document in read:
            for key in list(document.keys):
                try:
                    text = document.text(key)
                    if text in self._ratings or document.status(key) == "done":
                        continue
                except StaleError:
                    continue
                sentence = document.read(text)
                if isinstance(sentence, Sentence):
                    yield text, sentence

    def adopt(self) -> None:
        """Use the model that was learned, and read all sentences again."""
        if self.learner is None or self.partner is None:
            raise TreefineError("There is no new model.", hint="Start treefine annotate with --learn.")
        self.partner.name = self.learner.adopt(self.partner.use)
        self._ratings.clear()
        self._news.set()

    def learn(self) -> None:
        """Start to learn from the sentences that are done, if there are enough new ones."""
        if self.learner is not None:
            done = [
                sentence
                for document in self.documents
                for key, sentence in document.sentences()
                if document.status(key) == "done"
            ]
            self.learner.consider(done)

    def close(self) -> None:
        """Write all files, and stop everything in the background."""
        self._is_closed = True
        self._news.set()
        if self.learner is not None:
            self.learner.stop()
        if self.partner is not None:
            self.partner.close()
        for each in self.documents:
            each.close()
