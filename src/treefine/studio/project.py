"""Project: the files that are open in the studio, other annotators' trees, the queue of sentences, and progress.

`opened` opens files for a session, with the parser of their language, and closes them at the end.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from treefine.cores import use_threads
from treefine.errors import TreebankError, TreefineError
from treefine.evaluation.agreement import Agreement, agreement_of_pairs, differences, sentence_pairs, tag_differences
from treefine.model.bundled import EXTRA_MODEL, find_model, model_for
from treefine.segmenter.language import identify
from treefine.studio.actions import Action, act, confirmed
from treefine.studio.document import Document, Revision, StaleError, check_is_conllu
from treefine.studio.learn import CorrectionLearner
from treefine.studio.partner import Advice, Partner
from treefine.treebank.conllu import Unreadable, read_treebank
from treefine.treebank.files import open_input, open_output
from treefine.treebank.schemes import UPOS
from treefine.treebank.search import read_query
from treefine.treebank.sentence import BLANK, Sentence, own_text

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser

Order = Literal["file", "doubt", "difference"]
Show = Literal["all", "open", "done", "doubtful", "changed"]
_FOLLOWED = ("arc", "label", "tree", "forbid", "free")  # actions after which the parser looks at the rest of the tree
_RATED_AT_ONCE = 16  # sentences that the parser reads at a time
_PAUSE = 1.0  # seconds after the last action until the parser reads on: a person would wait for it
_UNIVERSAL = (  # the labels of UD, which are never typing mistakes
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl fixed "
    "flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative xcomp"
).split()
_SAMPLE = 60  # sentences from which the language is identified


@dataclass(frozen=True)
class Reference:
    """Trees of another annotator or parser for the same sentences."""

    name: str
    sentences: tuple[Sentence, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Sentence]:
        """The sentences by sent_id."""
        return {sentence.sent_id: sentence for sentence in self.sentences if sentence.sent_id}


def _values_of(texts: Collection[str]) -> dict[str, list[str]]:
    """Return the values that sentences have in their columns, the most frequent first."""
    upos, xpos, feats, labels = counts = tuple(Counter[str]() for _ in range(4))
    for text in texts:
        rows = [line.split("\t") for line in text.split("\n") if line[:1].isdecimal()]
        for column, counted in zip((3, 4, 5, 7), counts, strict=True):
            counted.update(row[column] for row in rows if len(row) == 10 and row[column] != BLANK)
    pairs: Counter[str] = Counter()
    for some, times in feats.items():
        pairs.update(dict.fromkeys(some.split("|"), times))
    frequent = {"labels": labels, "upos": upos, "xpos": xpos, "feats": pairs}
    values = {name: [value for value, _ in counted.most_common()] for name, counted in frequent.items()}
    return values | {"upos": [*dict.fromkeys([*values["upos"], *sorted(UPOS)])], "xpos": values["xpos"][:300]}


@dataclass(frozen=True)
class Queue:
    """The sentences to look at, in order."""

    keys: list[int]
    marked: dict[int, tuple[int, ...]]  # the words that a search found, by key
    n_different: int | None  # sentences about which the annotators differ, if they were sorted by that


class ChangeRequest(BaseModel):
    """A change of a sentence, as the page asks for it; the methods of a Project say which fields they need."""

    model_config = ConfigDict(extra="forbid")

    file: int = 0
    key: int = 0
    version: int = 0
    id: str = Field(min_length=1, max_length=100)  # chosen by the page; the same id is never applied twice
    action: Action = Action("")  # of a person
    confirms: bool = False  # the words before it, too
    is_redo: bool = False
    is_refusal: bool = False  # of what the parser changed
    revision: int | None = None  # the last one that the page knows; undo of another one is refused


@dataclass(eq=False)
class Project:
    """The files that a person works on. There may be references: the trees of other annotators."""

    documents: Sequence[Document]
    partner: Partner | None = None
    references: Sequence[Reference] = ()
    languages: Sequence[str] = ()
    learner: CorrectionLearner | None = None
    is_example: bool = False  # whether the file is a copy that is removed at the end

    def __post_init__(self) -> None:
        self.languages = [*self.languages, *[""] * (len(self.documents) - len(self.languages))]
        self._ratings: dict[str, float] = {}  # the expected number of wrong arcs, by the text of a sentence
        self._values: dict[int, dict[str, list[str]]] = {}
        self._is_closed = False
        self._last_asked = 0.0  # when a person last needed the parser
        self._has_unrated = threading.Event()  # there may be sentences that the parser has not read
        if self.partner is not None:
            self._has_unrated.set()
            threading.Thread(target=self._rate, args=(self.partner,), daemon=True).start()

    def document(self, file: int) -> Document:
        """Return one of the files, counted from 0."""
        if not 0 <= file < len(self.documents):
            raise TreefineError(f"There is no file {file}.", hint=f"There are {len(self.documents)}.")
        return self.documents[file]

    def partner_of(self, file: int) -> Partner | None:
        """Return the parser, if it is loaded and knows the language of a file, which is that of the first file."""
        is_known = self.languages[file] in ("", self.languages[0])
        return self.partner if self.partner is not None and self.partner.is_ready and is_known else None

    def values(self, file: int) -> dict[str, list[str]]:
        """Return the values in the columns of a file."""
        if file not in self._values:
            document = self.document(file)
            with document.lock:
                self._values[file] = _values_of([document.text(key) for key in document.keys])
        return self._values[file]

    # Changing

    def edit(self, request: ChangeRequest) -> Revision | None:
        """Make a change. With `confirms`, a person who attaches a word has read and accepted all words before it."""
        document, labels = self.document(request.file), self.values(request.file)["labels"]
        action = request.action
        with document.lock:
            if request.id in document.changes:
                return document.changes[request.id]
            self._last_asked = monotonic()
            if document.version(request.key) != request.version:
                raise StaleError("This sentence was changed in another tab.", hint="It is shown as it is now.")
            keys, sentences = act(document, request.key, action, labels=self.known_labels(request.file))
            if request.confirms and action.do in ("arc", "label") and action.word:
                sentences = [confirmed(sentences[0], range(1, action.word))]
            change = document.replace(keys, sentences, what=action.do, id=request.id)
        used = {label for sentence in sentences for label in sentence.labels}  # also from lines or another annotator
        labels += sorted(used - {*labels, BLANK})
        self._has_unrated.set()
        return change

    def known_labels(self, file: int) -> frozenset[str]:
        """Return the labels that are not taken for typing mistakes."""
        of_model = self.partner.labels if self.partner is not None else ()
        return frozenset([*self.values(file)["labels"], *of_model, *_UNIVERSAL])

    def follow(self, request: ChangeRequest) -> Revision | None:
        """Let the parser change what follows from the last change of a sentence; return None if nothing does."""
        document, partner = self.document(request.file), self.partner_of(request.file)
        key, version, id = request.key, request.version, request.id
        with document.lock:
            if id in document.changes:
                return document.changes[id]
            if partner is None or not document.undo_stack or document.version(key) != version:
                return None
            last, after = document.undo_stack[-1], document.sentence(key)
            is_edit = not last.is_follow_up and last.what in _FOLLOWED
            is_alone = [entry.key for entry in (*last.before, *last.after)] == [key, key]
            before = document.read(last.before[0].text)
        if not (is_edit and is_alone and isinstance(before, Sentence) and isinstance(after, Sentence)):
            return None
        self._last_asked = monotonic()
        followed = partner.follow(before, after)
        self._has_unrated.set()
        with suppress(StaleError):  # the person was faster
            if followed is not None:
                return document.replace([key], [followed], what=last.what, id=id, versions=[version], is_follow_up=True)
        return None

    def parse(self, request: ChangeRequest) -> Revision | None:
        """Replace the tree of a sentence by the parser's own; decided arcs stay."""
        document, partner = self.document(request.file), self.partner_of(request.file)
        if partner is None:
            hint = (self.partner and self.partner.fault) or "Name one with --model, or wait until it is loaded."
            raise TreefineError("No parser reads this file.", hint=hint)
        parsed = partner.parse(document.valid_sentence(request.key))
        if parsed is None:
            raise TreefineError("No tree satisfies all decisions.", hint="Remove one of them.")
        return document.replace([request.key], [parsed], what="parse", id=request.id, versions=[request.version])

    def undo(self, request: ChangeRequest) -> Revision | None:
        """Take back the last change of a file, or make it again. Refuse that if `revision` is not the newest one.

        With `is_refusal`, take back what the parser changed, but not the correction that it followed.
        """
        document, id = self.document(request.file), request.id
        with document.lock:
            if request.revision not in (None, document.revision) and id not in document.changes:
                raise StaleError("The file was changed in another tab.", hint="Look at it before you undo.")
            change = document.undo(id, is_redo=request.is_redo, is_refusal=request.is_refusal)
        self._has_unrated.set()
        return change

    # Reading

    def queue(self, file: int, *, order: Order = "file", show: Show = "all", search: str = "") -> Queue:
        """Return the sentences to look at: some or all of them, in an order that leaves none out."""
        document = self.document(file)
        query = read_query(search) if search.strip() else None
        words: dict[int, tuple[int, ...]] = {}
        ranks: dict[int, float] = {}
        for key in list(document.keys):
            with suppress(StaleError):  # it was joined with another one in the meantime
                is_shown = document.is_changed(key) if show == "changed" else show in ("all", document.status(key))
                sentence = document.sentence(key) if query and is_shown else None
                match = next(query.matches(sentence), None) if query and isinstance(sentence, Sentence) else None
                if not is_shown or (query and match is None):
                    continue
                if order != "file":
                    ranks[key] = (self.expected_errors if order == "doubt" else self.n_different)(file, key) or 0
                words[key] = match.words if match else ()
        keys = sorted(words, key=lambda key: -ranks.get(key, 0))
        n_different = sum(rank > 0 for rank in ranks.values()) if order == "difference" else None
        return Queue(keys, {key: some for key, some in words.items() if some}, n_different)

    def expected_errors(self, file: int, key: int) -> float | None:
        """Return the expected number of wrong arcs; none in a sentence that is done."""
        document = self.document(file)
        return 0.0 if document.status(key) == "done" else self._ratings.get(document.text(key))

    def others(self, file: int, key: int) -> list[tuple[str, Sentence | None]]:
        """Return the trees of other annotators for a sentence, by name; None if they do not have it.

        Sentences with the same sent_id belong together. Without one, the place counts, if only one file is edited.
        """
        if not self.references:
            return []
        sent_id = self.document(file).sentence(key).sent_id
        others: list[tuple[str, Sentence | None]] = []
        for reference in self.references:
            other = reference.by_id.get(sent_id)
            if other is None and len(self.documents) == 1 and key <= len(reference.sentences):
                same_place = reference.sentences[key - 1]
                other = None if sent_id and same_place.sent_id else same_place
            others.append((reference.name, other))
        return others

    def n_different(self, file: int, key: int) -> int | None:
        """Return how many words differ: between two references, or between the sentence and one; None without any."""
        trees: list[Sentence | Unreadable | None] = [other for _, other in self.others(file, key)]
        if len(trees) == 1:
            trees.append(self.document(file).sentence(key))
        sentences = [tree for tree in trees[:2] if isinstance(tree, Sentence)]
        if len(sentences) < 2 or sentences[0].forms != sentences[1].forms:
            return max(map(len, sentences), default=0) if trees else None
        words, tags = differences(*sentences) or (), tag_differences(*sentences) or ()
        return len({*words, *(word for word, _, _ in tags)})

    @cached_property
    def agreement(self) -> Agreement | None:
        """The agreement of two annotators, as their files were at the start."""
        if not self.references:
            return None
        if len(self.references) > 1:
            return agreement_of_pairs(sentence_pairs(self.references[0].sentences, self.references[1].sentences))
        pairs = [
            (sentence, other)
            for file, document in enumerate(self.documents)
            for key, sentence in document.sentences()
            for _, other in self.others(file, key)
            if other is not None
        ]
        return agreement_of_pairs(pairs) if pairs else None

    def advise(self, file: int, key: int) -> tuple[int, Advice | None]:
        """Return the version of a sentence and what the parser doubts in it; None without a parser."""
        document, partner = self.document(file), self.partner_of(file)
        with document.lock:
            version, text = document.version(key), document.text(key)
        sentence = document.read(text)
        if partner is None or not isinstance(sentence, Sentence):
            return version, None
        self._last_asked = monotonic()
        advice = partner.advise(sentence)
        self._ratings[text] = advice.n_wrong
        return version, advice

    # In the background

    def _rate(self, partner: Partner) -> None:
        """Read the sentences that nobody has read, a few at a time, and again what was changed."""
        partner.wait()
        unrated = self._unrated()
        while not self._is_closed and partner.is_ready:
            if monotonic() - self._last_asked < _PAUSE:
                sleep(_PAUSE / 10)
                continue
            some = dict(islice(unrated, _RATED_AT_ONCE))
            if not some:
                self._has_unrated.wait()
                self._has_unrated.clear()
                unrated = self._unrated()
                continue
            try:
                advices = partner.rate(list(some.values()))
            except (RuntimeError, CancelledError) as error:
                partner.fault = "" if self._is_closed else f"The parser has stopped: {error}"
                return
            self._ratings.update((text, advice.n_wrong) for text, advice in zip(some, advices, strict=True))

    def _unrated(self) -> Iterator[tuple[str, Sentence]]:
        for document in [each for file, each in enumerate(self.documents) if self.partner_of(file) is not None]:
            for key in list(document.keys):
                with suppress(StaleError):
                    text = document.text(key)
                    sentence = document.read(text) if document.status(key) != "done" else None
                    if text not in self._ratings and isinstance(sentence, Sentence):
                        yield text, sentence

    def adopt(self) -> None:
        """Use the model that was learned, and read all sentences again."""
        if self.learner is None or self.partner is None:
            raise TreefineError("There is no new model.", hint="Start treefine annotate with --learn.")
        self.partner.name = self.learner.adopt(self.partner.use)
        self._ratings.clear()
        self._has_unrated.set()

    def learn(self) -> None:
        """Start to learn from the sentences that are done, if there are enough new ones."""
        if self.learner is not None:
            pairs = [(document, *pair) for document in self.documents for pair in document.sentences()]
            self.learner.consider([sentence for document, key, sentence in pairs if document.status(key) == "done"])

    def close(self) -> None:
        """Write all files, and stop everything in the background."""
        self._is_closed = True
        self._has_unrated.set()
        if self.learner is not None:
            self.learner.stop()
        if self.partner is not None:
            self.partner.close()
        for document in self.documents:
            document.close()


@dataclass(frozen=True)
class SessionOptions:
    """What a session opens besides its files."""

    against: str = ""  # a file of another annotator
    adjudicate: str = ""  # the result of deciding between two files
    has_marks: bool = True
    learns: bool = False
    model: str | None = None  # "none": no parser; None: that of the language
    language: str | None = None  # None: identified
    device: str | None = None
    threads: int | None = None


@contextmanager
def opened(paths: Sequence[str], options: SessionOptions, warn: Callable[[str], None]) -> Iterator[Project]:
    """Open files, or an example without any, and close them at the end. Nothing is left of a session that fails."""
    if options.learns and options.model == "none":
        raise TreefineError("--learn needs a model.", hint="Name it with --model.")
    if options.model not in (None, "none") and "/" not in options.model and not Path(options.model).exists():
        find_model(options.model)  # raises an error; a folder or a model on the hub is only known when it is loaded
    with ExitStack() as stack:
        references, edited = _references(paths or [stack.enter_context(_example())], options)
        documents = [stack.enter_context(closing(Document(path, has_marks=options.has_marks))) for path in edited]
        languages = [_language_of(document, options.language) for document in documents]
        partner = learner = None
        if (chosen := model_of(options.model, options.language, languages[0], warn)) is not None:
            name, code = chosen
            if options.learns:
                learner = CorrectionLearner(name, documents[0].folder / "learning", language=code or "")
                name = learner.present

            def load(name: str) -> Parser:
                from treefine.parsing.parser import Parser  # loads torch

                use_threads(options.threads)
                return Parser.from_pretrained(name, device=options.device, language=code)

            partner = Partner(load, name)
        project = Project(documents, partner, references, languages, learner, is_example=not paths)
        yield stack.enter_context(closing(project))
        project.close()
        for document in documents:
            if document.fault:
                warn(document.fault)


def _references(paths: Sequence[str], options: SessionOptions) -> tuple[list[Reference], Sequence[str]]:
    """Return the trees of other annotators, and the files to edit."""
    against, result = options.against, options.adjudicate
    if not result:
        return [_reference(against, Path(against).name)] if against else [], paths
    if against:
        raise TreefineError("--against and --adjudicate cannot be combined.", hint="Leave one of them out.")
    if len(paths) != 2:
        raise TreefineError(f"--adjudicate needs two files, not {len(paths)}.", hint="Name those of A and B.")
    names = [Path(path).name for path in paths]
    names = names if len(set(names)) == 2 else list(paths)
    references = list(map(_reference, paths, names))
    if len(references[0].sentences) != len(references[1].sentences):
        counts = " and ".join(f"{len(reference.sentences):,}" for reference in references)
        raise TreefineError(f"The files have {counts} sentences.", hint="Adjudicate files of the same sentences.")
    if not Path(result).exists():
        for path in (paths[0], result):
            check_is_conllu(Path(path))
        with open_input(paths[0]) as source, open_output(result) as copy:
            shutil.copyfileobj(source, copy)
    elif any(Path(result).samefile(path) for path in paths):
        raise TreefineError("The result cannot be one of the two files.", hint="Name another file for OUT.")
    return references, [result]


def _reference(path: str, name: str) -> Reference:
    return Reference(name, tuple(read_treebank(path)))


def _language_of(document: Document, known: str | None) -> str:
    """Identify the language, if it is not known. Raise an error if the file has no valid sentence."""
    sample = [own_text(sentence) for _, sentence in islice(document.sentences(), _SAMPLE)]
    if not sample:
        first = document.sentence(document.keys[0])
        assert isinstance(first, Unreadable)
        fault, hint = first.faults[0], "If this is a text, parse it first: treefine parse FILE -o FILE.conllu"
        raise TreebankError(fault.message, path=str(document.path), line=fault.line, hint=hint)
    return known or identify(" ".join(sample)).language


def model_of(
    model: str | None, language: str | None, identified: str, warn: Callable[[str], None]
) -> tuple[str, str | None] | None:
    """Return the model and its option `language`; None, with a warning, if no model knows the language."""
    if model == "none":
        return None
    if model is not None:  # a model of one language needs no option, and the identified language may be wrong
        needs_language = model == EXTRA_MODEL and model_for(identified) is not None
        return model, language or (identified if needs_language else None)
    language = language or identified
    if language and (bundled := model_for(language)) is not None:
        name, code = bundled
        return name, None if name == "en" else code
    what = f"the language {language}" if language else "this language"
    warn(f"No installed model knows {what}, so the files open without a parser. Name one with --model.")
    return None


@contextmanager
def _example() -> Iterator[str]:
    """Yield a copy of the example, which is removed at the end."""
    with tempfile.TemporaryDirectory() as folder, as_file(files("treefine.studio").joinpath("example.conllu")) as path:
        copy = Path(folder, path.name)
        shutil.copyfile(path, copy)
        yield str(copy)
