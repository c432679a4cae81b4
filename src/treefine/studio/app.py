"""The web app of the studio: a thin translation of a Project into JSON. The page computes nothing but the drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from treefine.errors import is_right_to_left
from treefine.evaluation.agreement import differences, tag_differences
from treefine.serving.gate import Gate, add_error_handlers, add_page
from treefine.serving.limits import ServerLimits
from treefine.studio.actions import decisions_of
from treefine.studio.checks import check
from treefine.studio.document import Document, Revision
from treefine.studio.partner import DOUBTFUL
from treefine.studio.project import ChangeRequest, Order, Project, Show
from treefine.treebank.conllu import Unreadable
from treefine.treebank.sentence import Sentence, own_text
from treefine.version import __version__

_MOST_ROWS = 200  # of the queue in one answer
_TAB_SECONDS = 6.0  # a tab that was not heard of for longer is closed


def create_studio(project: Project, *, token: str = "") -> FastAPI:
    """Return the app. All its addresses start with the token, which only the person who started it knows."""
    start = f"/{token}" if token else ""
    app = FastAPI(title="treefine annotate", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_routes(project), prefix=f"{start}/api")
    add_page(app, Path(__file__).with_name("page"), start)
    add_error_handlers(app, hint="Open the address that treefine annotate printed.")
    app.add_middleware(Gate, limits=ServerLimits(max_bytes=20_000_000, receive=600))
    return app


def _routes(project: Project) -> APIRouter:
    router = APIRouter()
    tabs: dict[str, float] = {}  # when each tab was last heard of

    @router.get("/project")
    def about() -> Response:
        about = {
            "files": [_file_json(project, file) for file in range(len(project.documents))],
            "references": [reference.name for reference in project.references],
            "agreement": None if project.agreement is None else project.agreement.to_dict(),
            "parser": _parser_json(project),
            "is_example": project.is_example,
            "doubtful": DOUBTFUL,
        }
        return JSONResponse(about)

    @router.get("/queue")
    def queue(file: int = 0, order: Order = "file", show: Show = "all", search: str = "") -> Response:
        queue = project.queue(file, order=order, show=show, search=search)
        return JSONResponse(asdict(queue) | _progress(project, file))

    @router.get("/rows")
    def rows(file: int = 0, keys: str = "") -> Response:
        document = project.document(file)
        asked = [int(key) for key in keys.split(",")[:_MOST_ROWS] if key.isdecimal() and len(key) < 10]
        return JSONResponse([_row_json(project, file, key) for key in asked if key in document.keys])

    @router.get("/sentence")
    def sentence(file: int, key: int) -> Response:
        answer = JSONResponse(sentence_json(project, file, key))
        if project.partner is not None:
            project.partner.may_load.set()
        return answer

    @router.get("/advice")
    def advice(file: int, key: int) -> Response:
        version, advice = project.advise(file, key)
        return JSONResponse({"version": version, "advice": None if advice is None else asdict(advice)})

    def add_change(make: Callable[[ChangeRequest], Revision | None]) -> None:
        @router.post(f"/{make.__name__}")
        def change(request: ChangeRequest) -> Response:
            return JSONResponse(_change_json(project, request, make(request)))

    for make in (project.edit, project.follow, project.parse, project.undo):
        add_change(make)

    @router.post("/spent")
    def spent(
        seconds: Annotated[float, Body(ge=0, le=100_000)],
        actions: Annotated[int, Body(ge=0, le=100_000)],
        file: Annotated[int, Body()] = 0,
        key: Annotated[int, Body()] = 0,
    ) -> Response:
        project.document(file).spend(key, seconds, actions)
        project.learn()
        return JSONResponse({})

    @router.get("/status")
    def status(tab: str = "", file: int = 0) -> Response:
        now = monotonic()
        for old in [name for name, seen in list(tabs.items()) if now - seen > _TAB_SECONDS]:
            tabs.pop(old, None)
        tabs[tab[:100]] = now
        learning = None if project.learner is None else asdict(project.learner.state)
        answer = {"fault": project.document(file).fault, "parser": _parser_json(project), "learning": learning}
        return JSONResponse(answer | {"other_tabs": len(tabs) - 1} | _progress(project, file))

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
        name = document.path.name.removesuffix(document.compression).removesuffix(".conllu") + ".conllu"
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        return PlainTextResponse(document.content(has_marks=marks), headers=headers)

    return router


def _file_json(project: Project, file: int) -> dict[str, Any]:
    document, values = project.document(file), project.values(file)
    labels = [*values["labels"], *sorted(project.known_labels(file) - {*values["labels"]})]
    return {"name": document.path.name, "notice": document.notice} | values | {"labels": labels}


def _parser_json(project: Project) -> dict[str, Any] | None:
    partner = project.partner
    return None if partner is None else {"name": partner.name, "is_ready": partner.is_ready, "fault": partner.fault}


def _steps_json(document: Document) -> dict[str, Any]:
    can_undo, can_redo = bool(document.undo_stack), bool(document.redo_stack)
    return {"revision": document.revision, "can_undo": can_undo, "can_redo": can_redo}


def _progress(project: Project, file: int) -> dict[str, Any]:
    document = project.document(file)
    with document.lock:
        statuses = {key: document.status(key) for key in document.keys}
        expected = [project.expected_errors(file, key) for key in document.keys]
        spent = [each for key, each in document.spent.items() if statuses.get(key) == "done"]
    known = [number for number in expected if number is not None]
    return _steps_json(document) | {
        "counts": {name: list(statuses.values()).count(name) for name in ("done", "doubtful", "open")},
        "errors_left": round(sum(known), 1),
        "rated": len(known),
        "seconds": round(sum(seconds for seconds, _ in spent), 1),
        "actions": sum(actions for _, actions in spent),
        "visited": len(spent),
    }


def _change_json(project: Project, request: ChangeRequest, change: Revision | None) -> dict[str, Any]:
    document = project.document(request.file)
    keys = [entry.key for entry in change.after] if change is not None else [request.key]
    return _steps_json(document) | {
        "is_changed": change is not None,
        "is_new_order": change is not None and [entry.key for entry in change.before] != keys,
        "sentences": [sentence_json(project, request.file, key) for key in keys if key in document.keys],
        "words": [] if change is None else _words_with_new_arcs(document, change),
    }


def _words_with_new_arcs(document: Document, change: Revision) -> Sequence[int]:
    states = [document.read(entry.text) for entry in (*change.before, *change.after)]
    valid = [sentence for sentence in states if isinstance(sentence, Sentence)]
    return (differences(*valid) or ()) if len(valid) == len(states) == 2 else ()


def _place_json(document: Document, key: int) -> dict[str, Any]:
    return {
        "key": key,
        "number": document.place(key) + 1,
        "sent_id": document.sentence(key).sent_id,
        "status": document.status(key),
        "is_changed": document.is_changed(key),
    }


def _row_json(project: Project, file: int, key: int) -> dict[str, Any]:
    document = project.document(file)
    with document.lock:
        sentence = document.sentence(key)
        return _place_json(document, key) | {
            "text": own_text(sentence) if isinstance(sentence, Sentence) else sentence.faults[0].message,
            "expected_errors": project.expected_errors(file, key),
            "n_different": project.n_different(file, key),
        }


def sentence_json(project: Project, file: int, key: int) -> dict[str, Any]:
    """Return everything that the page shows of a sentence."""
    document = project.document(file)
    with document.lock:
        sentence = document.sentence(key)
        text = document.text(key).encode(errors="surrogateescape").decode(errors="replace")  # JSON needs valid UTF-8
        common = _place_json(document, key) | {
            "file": file,
            "version": document.version(key),
            "lines": text.replace("\r\n", "\n").strip("\n\ufeff").split("\n"),
            "text": "",
            "words": None,
        }
    if isinstance(sentence, Unreadable):
        faults = [
            {"word": None, "message": f"line {each.line}: {each.message}", "hint": each.hint, "is_error": True}
            for each in sentence.faults
        ]
        return common | {"faults": faults}
    decided = decisions_of(sentence)
    ids, forms = sentence.columns[:2]
    return common | {
        "text": own_text(sentence),
        "comments": list(sentence.comments),
        "direction": "rtl" if is_right_to_left("".join(sentence.forms)) else "ltr",
        "words": [
            asdict(word)
            | {
                "keeps_head": word.number in decided.heads,
                "keeps_label": word.number in decided.labels,
                "not_heads": list(decided.not_heads.get(word.number, ())),
                "not_labels": list(decided.not_labels.get(word.number, ())),
            }
            for word in sentence.words
        ],
        "tokens": [
            {"form": token.form, "first": token.words[0], "last": token.words[-1]}
            for token in sentence.tokens()
            if len(token.words) > 1
        ],
        "empty": [
            {"id": name, "after": int(name.partition(".")[0]), "form": form}
            for name, form in zip(ids, forms, strict=True)
            if "." in name
        ],
        "faults": [asdict(fault) for fault in check(sentence, project.languages[file])],
        "others": [_other_json(name, other, sentence) for name, other in project.others(file, key)],
    }


def _other_json(name: str, other: Sentence | None, ours: Sentence) -> dict[str, Any]:
    """Return another annotator's tree, and where arcs and tags differ from the sentence; None if the words differ."""
    if other is None:
        return {"name": name, "words": None, "differs": None, "tags": None}
    words, differs = list(map(asdict, other.words)), differences(ours, other)
    lines = {"lines": other.to_conllu().strip().split("\n")} if differs is None else {}
    return {"name": name, "words": words, "differs": differs, "tags": tag_differences(ours, other)} | lines
