"""The web app of the studio: a thin translation of a Project into JSON. The page computes nothing but the drawing."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.resources import files
from time import monotonic
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from treefine.evaluation.agreement import differences, tag_differences
from treefine.serving.gate import Gate, add_error_handlers, static_routes
from treefine.serving.limits import ServerLimits
from treefine.studio.actions import Action, decisions_of
from treefine.studio.document import Document
from treefine.studio.journal import Revision
from treefine.studio.partner import DOUBTFUL
from treefine.studio.project import Order, Project, Show
from treefine.treebank.conllu import Unreadable
from treefine.treebank.constraints import Constraints
from treefine.treebank.files import COMPRESSED
from treefine.treebank.raw_text import own_text
from treefine.treebank.sentence import Sentence
from treefine.version import __version__

_MOST_ROWS = 200  # of the queue in one answer
_TAB_SECONDS = 6.0  # a tab that was not heard of for longer is closed


class _Place(BaseModel):
    model_config = ConfigDict(extra="forbid")

    file: int = 0
    key: int = 0


class _Request(_Place):
    version: int = 0
    id: str = Field(min_length=1, max_length=100)  # chosen by the page; the same id is never applied twice


class ActionJson(BaseModel):
    """One action of a person; see `treefine.studio.actions`."""

    model_config = ConfigDict(extra="forbid")

    do: str
    word: int | None = None
    last: int | None = None
    head: int | None = None
    label: str | None = Field(None, max_length=200)
    column: str | None = None
    value: str | None = None
    forms: tuple[str, ...] | None = None
    lines: tuple[str, ...] | None = None
    arcs: tuple[tuple[int, int | None, str], ...] | None = None
    tags: tuple[tuple[int, str, str], ...] | None = None
    words: tuple[int, ...] | None = None
    is_new: bool = False


class EditRequest(_Request):
    """A change of a sentence."""

    action: ActionJson
    confirms: bool = False


class StepRequest(_Request):
    """Undo or redo."""

    is_redo: bool = False
    is_refusal: bool = False  # of what the parser changed
    revision: int | None = Field(None, description="The last one that the page knows; another one is refused.")


class SpentRequest(_Place):
    """The time and the number of actions that a sentence took."""

    seconds: float = Field(ge=0, le=100_000)
    actions: int = Field(ge=0, le=100_000)


def create_studio(project: Project, *, token: str = "", limits: ServerLimits | None = None) -> FastAPI:
    """Return the app. All its addresses start with the token, which only the person who started it knows."""
    start = f"/{token}" if token else ""
    app = FastAPI(title="treefine annotate", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_routes(project), prefix=f"{start}/api")
    app.include_router(
        static_routes(files("treefine.studio").joinpath("page"), prefix=f"{start}/page", index=f"{start}/")
    )
    add_error_handlers(app, hint="Open the address that treefine annotate printed.")
    limits = limits or ServerLimits(max_bytes=20_000_000, receive=600)
    app.add_middleware(Gate, limits=limits)
    return app


def _routes(project: Project) -> APIRouter:
    router = APIRouter()
    tabs: dict[str, float] = {}  # when each tab was last heard of

    @router.get("/project")
    def about() -> Response:
        return JSONResponse(_project_json(project))

    @router.get("/queue")
    def queue(file: int = 0, order: Order = "file", show: Show = "all", search: str = "") -> Response:
        found = project.queue(file, order=order, show=show, search=search)
        marked = {key: words for key, words in found if words}
        keys = [key for key, _ in found]
        n_different = project.n_differing(file, keys) if order == "difference" else None
        return JSONResponse({"keys": keys, "marked": marked, "n_different": n_different, **_progress(project, file)})

    @router.get("/rows")
    def rows(file: int = 0, keys: str = "") -> Response:
        document = project.document(file)
        asked = [int(each) for each in keys.split(",")[:_MOST_ROWS] if each.isdecimal() and len(each) < 10]
        found = [asdict(project.row(file, key)) for key in asked if key in document]
        return JSONResponse(found)

    @router.get("/sentence")
    def sentence(file: int, key: int) -> Response:
        found = JSONResponse(sentence_json(project, file, key))
        project.is_shown.set()
        return found

    @router.get("/advice")
    def advice(file: int, key: int) -> Response:
        version, found = project.advise(file, key)
        return JSONResponse({"version": version, "advice": None if found is None else asdict(found)})

    @router.post("/edit")
    def edit(request: EditRequest) -> Response:
        action = Action(**request.action.model_dump())
        change = project.edit(request.file, request.key, request.version, request.id, action, confirms=request.confirms)
        return JSONResponse(_changed_json(project, request.file, request.key, change))

    @router.post("/follow")
    def follow(request: _Request) -> Response:
        change = project.follow(request.file, request.key, request.version, request.id)
        return JSONResponse(_changed_json(project, request.file, request.key, change))

    @router.post("/parse")
    def parse(request: _Request) -> Response:
        change = project.parse(request.file, request.key, request.version, request.id)
        return JSONResponse(_changed_json(project, request.file, request.key, change))

    @router.post("/undo")
    def undo(request: StepRequest) -> Response:
        options = request.model_dump(include={"is_redo", "is_refusal", "revision"})
        change = project.undo(request.file, request.id, **options)
        key = change.after[0].key if change is not None else request.key
        return JSONResponse(_changed_json(project, request.file, key, change))

    @router.post("/spent")
    def spent(request: SpentRequest) -> Response:
        project.document(request.file).spend(request.key, request.seconds, request.actions)
        project.learn()
        return JSONResponse({})

    @router.get("/status")
    def status(tab: str = "", file: int = 0) -> Response:
        now = monotonic()
        for each in [each for each, seen in list(tabs.items()) if now - seen > _TAB_SECONDS]:
            tabs.pop(each, None)
        tabs[tab[:100]] = now
        document = project.document(file)
        return JSONResponse(
            {
                "revision": document.revision,
                "other_tabs": len(tabs) - 1,
                "fault": document.fault,
                "parser": _parser_json(project),
                "learning": None if project.learner is None else asdict(project.learner.state),
                **_progress(project, file),
            }
        )

    @router.post("/leave")
    def leave(tab: str = "") -> Response:
        tabs.pop(tab[:100], None)
        return JSONResponse({})

    @router.post("/adopt")
    def adopt() -> Response:
        project.adopt()
        return JSONResponse(_parser_json(project))

    @router.get("/export")
    def export(file: int = 0, marks: bool = True) -> Response:
        document = project.document(file)
        packed = document.path.suffix if document.path.suffix.lower() in COMPRESSED else ""
        name = document.path.name.removesuffix(packed).removesuffix(".conllu") + ".conllu"
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        return PlainTextResponse(document.content(has_marks=marks), headers=headers)

    return router


def _project_json(project: Project) -> dict[str, Any]:
    found = project.agreement
    return {
        "version": __version__,
        "files": [
            {"name": each.path.name, "sentences": len(each), "notice": each.notice, **_inventory_json(project, number)}
            for number, each in enumerate(project.documents)
        ],
        "references": [each.name for each in project.references],
        "agreement": None if found is None else found.to_dict(),
        "parser": _parser_json(project),
        "learns": project.learner is not None,
        "is_example": project.is_example,
        "doubtful": DOUBTFUL,
    }


def _inventory_json(project: Project, file: int) -> dict[str, Any]:
    found = project.inventory(file)
    known = sorted(project.known_labels(file) - set(found.labels))
    return {"labels": [*found.labels, *known], "upos": found.upos, "xpos": found.xpos, "feats": found.feats}


def _parser_json(project: Project) -> dict[str, Any] | None:
    partner = project.partner
    return None if partner is None else {"name": partner.name, "is_ready": partner.is_ready, "fault": partner.fault}


def _progress(project: Project, file: int) -> dict[str, Any]:
    document = project.document(file)
    counts = {"done": 0, "doubtful": 0, "open": 0}
    n_wrong, n_rated = 0.0, 0
    with document.lock:
        for key in document.keys:
            counts[document.status(key)] += 1
            doubt = project.doubt(document, key)
            n_rated += doubt is not None
            n_wrong += doubt or 0.0
        spent = [each for key, each in document.spent.items() if key in document and document.status(key) == "done"]
    return {
        "revision": document.revision,
        "counts": counts,
        "errors_left": round(n_wrong, 1),
        "rated": n_rated,
        "seconds": round(sum(seconds for seconds, _ in spent), 1),
        "actions": sum(actions for _, actions in spent),
        "visited": len(spent),
        "can_undo": document.can_undo,
        "can_redo": document.can_redo,
    }


def _changed_json(project: Project, file: int, key: int, change: Revision | None) -> dict[str, Any]:
    """Return what a change did: the sentences as they are now, and the words whose arcs are new."""
    document = project.document(file)
    keys = [each.key for each in change.after] if change is not None else [key]
    return {
        "is_changed": change is not None,
        "what": "" if change is None else change.what,
        "is_follow_up": change is not None and change.is_follow_up,
        "is_new_order": change is not None and [each.key for each in change.before] != keys,
        "sentences": [sentence_json(project, file, each) for each in keys if each in document],
        "words": [] if change is None else _new_arcs(document, change),
        "revision": document.revision,
        "can_undo": document.can_undo,
        "can_redo": document.can_redo,
    }


def _new_arcs(document: Document, change: Revision) -> list[dict[str, Any]]:
    """Return the words whose arcs a change of one sentence replaced, with their old arcs."""
    if len(change.before) != 1 or len(change.after) != 1:
        return []
    before, after = document.read(change.before[0].text), document.read(change.after[0].text)
    if not isinstance(before, Sentence) or not isinstance(after, Sentence) or before.forms != after.forms:
        return []
    pairs = zip(before.heads, before.labels, after.heads, after.labels, strict=True)
    return [
        {"word": word, "head": head, "label": label}
        for word, (head, label, new_head, new_label) in enumerate(pairs, start=1)
        if (head, label) != (new_head, new_label)
    ]


def sentence_json(project: Project, file: int, key: int) -> dict[str, Any]:
    """Return everything that the page shows of a sentence."""
    document = project.document(file)
    with document.lock:
        found = document.sentence(key)
        text = document.text(key).encode(errors="surrogateescape").decode(errors="replace")  # JSON needs valid UTF-8
        common = {
            "file": file,
            "key": key,
            "number": document.place(key) + 1,
            "version": document.version(key),
            "status": document.status(key),
            "is_changed": document.is_changed(key),
            "lines": text.replace("\r\n", "\n").strip("\n\ufeff").split("\n"),
            "spent": document.spent.get(key, (0.0, 0)),
        }
    if isinstance(found, Unreadable):
        faults = [
            {
                "word": None,
                "column": "",
                "message": f"line {each.line}: {each.message}",
                "hint": each.hint,
                "is_error": True,
            }
            for each in found.faults
        ]
        return common | {"sent_id": found.sent_id, "text": "", "words": None, "faults": faults}
    decided = decisions_of(found)
    return common | {
        "sent_id": found.sent_id,
        "text": own_text(found),
        "comments": list(found.comments),
        "direction": _direction(found.forms),
        "words": [_word_json(each, decided) for each in found.words],
        "tokens": [
            {"form": each.form, "first": each.words[0], "last": each.words[-1]}
            for each in found.tokens()
            if len(each.words) > 1
        ],
        "empty": list(_empty_nodes(found)),
        "faults": [asdict(each) for each in project.checkers[file].check(found)],
        "others": [_other_json(name, other, found) for name, other in project.others(file, key)],
    }


def _word_json(word: Any, decided: Constraints) -> dict[str, Any]:
    keeps = (word.number in decided.heads, word.number in decided.labels)
    return asdict(word) | {
        "keeps_head": keeps[0],
        "keeps_label": keeps[1],
        "not_heads": list(decided.not_heads.get(word.number, ())),
        "not_labels": list(decided.not_labels.get(word.number, ())),
    }


def _empty_nodes(sentence: Sentence) -> Iterator[dict[str, Any]]:
    for identifier, form in zip(sentence.columns[0], sentence.columns[1], strict=True):
        if "." in identifier:
            yield {"id": identifier, "after": int(identifier.partition(".")[0]), "form": form}


def _other_json(name: str, other: Sentence | None, own: Sentence) -> Mapping[str, Any]:
    """Return another annotator's tree, and where arcs and tags differ from the sentence; None if the words differ."""
    if other is None:
        return {"name": name, "words": None, "differs": None, "tags": None}
    words = [{"number": each.number, "form": each.form, "head": each.head, "label": each.label} for each in other.words]
    differs = differences(own, other)
    found = {"name": name, "words": words, "differs": differs, "tags": tag_differences(own, other)}
    return found | ({"lines": other.to_conllu().strip().split("\n")} if differs is None else {})


def _direction(forms: tuple[str, ...]) -> str:
    """Return the writing direction, which the first letter with one decides."""
    for letter in "".join(forms):
        kind = unicodedata.bidirectional(letter)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return "ltr"
