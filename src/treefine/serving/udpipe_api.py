"""A REST API compatible with UDPipe's service at LINDAT; its clients only need a new address.

The file has three parts: parameters and routes; input and output formats; names of models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import starmap
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from treefine.config import COLUMNS
from treefine.errors import TreebankError, TreefineError
from treefine.model.vocabulary import language_of
from treefine.parsing.languages import LanguageChoice
from treefine.parsing.parser import Parser
from treefine.serving.jobs import ParseJob
from treefine.serving.schema import ERRORS, conllu_sentences
from treefine.serving.service import Served, Service
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import gap_of, raw_text, text_of
from treefine.treebank.sentence import BLANK, PLAIN, Sentence
from treefine.version import __version__

INPUTS = ("conllu", "generic_tokenizer", "horizontal", "vertical")
OUTPUTS = ("conllu", "horizontal", "matxin", "plaintext", "vertical")
_PARAGRAPH_START = re.compile(r"#\s*new(doc|par)\b")
_NO_BREAK_SPACE = "\u00a0"  # in `horizontal`, a space within a word
_PREFIXES = ("", "/api", "/services/udpipe/api")  # clients may add these between the address and the route
_MAX_PARTS = 100  # of a multipart body
# UDPipe calls both written forms of Norwegian by one name, and tells them apart by their treebanks.
_NORWEGIAN = {"nb": "no", "nn": "no"}
_CODES_OF_NORWEGIAN = {"nb": "nb", "nob": "nb", "nn": "nn", "nno": "nn"}
_MAX_INDENT = 100  # of nested XML; without a limit, the output of a deep tree would be quadratic


def _parameter(description: str, **schema: Any) -> dict[str, Any]:
    return {"type": "string", "description": description} | schema


def _pattern(formats: Sequence[str]) -> str:
    return rf"^({'|'.join(formats)})(=[\s\S]*)?$"


_PARAMETERS = {
    "data": _parameter("The text, or sentences in the format of `input`."),
    "model": _parameter(
        "A model's name, or a UDPipe name of one of its languages or treebanks, such as `english`; empty: the default."
    ),
    "tokenizer": _parameter("Segment a text. Options (separated by ;): presegmented, ranges, normalized_spaces."),
    "tagger": _parameter("Predict tags, and features and lemmas if the model can."),
    "parser": _parameter("Predict heads and labels."),
    "input": _parameter("The input format if `tokenizer` is absent.", pattern=_pattern(INPUTS), default="conllu"),
    "output": _parameter("The output format.", pattern=_pattern(OUTPUTS), default="conllu"),
}
_QUERY = [
    {"name": name, "in": "query", "required": name == "data", "allowEmptyValue": True}
    | {"description": schema["description"], "schema": {key: schema[key] for key in schema if key != "description"}}
    for name, schema in _PARAMETERS.items()
]
_FORM = {"schema": {"type": "object", "properties": _PARAMETERS, "required": ["data"]}}
_BODY = {"required": True, "content": {"application/x-www-form-urlencoded": _FORM, "multipart/form-data": _FORM}}


class ProcessAnswer(BaseModel):
    """The response of /process."""

    model: str
    acknowledgements: list[str]
    result: str


class ModelsAnswer(BaseModel):
    """The response of /models: the stages of each model."""

    models: dict[str, list[str]]
    default_model: str


@dataclass(frozen=True)
class UDPipeRequest:
    """The parameters of a request. A parameter that is present, even empty, requests its stage."""

    data: str
    model: str
    tokenizer: tuple[str, ...] | None  # its options; None if the data is divided into words
    is_tagged: bool
    is_parsed: bool
    input: str
    output: str
    output_options: tuple[str, ...]

    @classmethod
    def of(cls, params: Mapping[str, str]) -> UDPipeRequest:
        """Return the request with these parameters."""
        if "data" not in params:
            raise TreefineError("The parameter data is missing.", hint="Put the text or the CoNLL-U into it.")
        tokenizer = options_in(params["tokenizer"]) if "tokenizer" in params else None
        input, options = checked_format(params.get("input", "conllu"), INPUTS, "input")
        output, output_options = checked_format(params.get("output", "conllu"), OUTPUTS, "output")
        if tokenizer is None and input == "generic_tokenizer":
            tokenizer = options  # use the model's own segmenter instead of a generic one
        return cls(
            data=params["data"],
            model=params.get("model", ""),
            tokenizer=tokenizer,
            is_tagged=params.get("tagger", "none") != "none",  # in UDPipe 1, "none" means no
            is_parsed=params.get("parser", "none") != "none",
            input=input,
            output=output,
            output_options=output_options,
        )


def udpipe_routes(served: Served) -> APIRouter:
    """Return the routes of UDPipe's API over these models."""
    router = APIRouter(tags=["UDPipe"])

    async def process(request: Request) -> JSONResponse:
        """Segment, tag and parse like UDPipe. A stage runs if its parameter is present, even empty."""
        wanted = UDPipeRequest.of(await _parameters(request, served.find().limits.max_bytes))
        service, treebank = _service_meant(wanted.model, served)
        wanted = replace(wanted, model=udpipe_name(treebank) if treebank else service.name)
        _check_stages(wanted, service)
        service.check_room(len(wanted.data))  # before the input is read
        result = await service.within_time(_result(wanted, service, treebank))
        thanks = [f"treefine {__version__}"]  # UDPipe lists URLs here, which no client reads
        answer = ProcessAnswer(model=wanted.model, acknowledgements=thanks, result=result)
        return JSONResponse(answer.model_dump())

    async def models() -> ModelsAnswer:
        """List the models in the form of UDPipe's API: each model, then the treebanks of a model of several."""
        found = {service.name: _stages(service.parser) for service in served}
        for service in served:
            for treebank in service.languages().treebanks:
                name = udpipe_name(treebank)
                if _service_meant(name, served) == (service, treebank):  # not of another model in the list
                    found[name] = _stages(service.parser)
        return ModelsAnswer(models=found, default_model=served.default)

    for prefix in _PREFIXES:
        for path, answer in (("/process", process), ("/models", models)):
            router.add_api_route(prefix + path, answer, methods=["GET", "POST"], include_in_schema=False)
    # Only for /openapi.json, where each method has its own description: the routes above answer both.
    for method, described in (("GET", {"parameters": _QUERY}), ("POST", {"requestBody": _BODY})):
        router.add_api_route(
            "/process",
            process,
            methods=[method],
            name=f"process_{method.lower()}",
            response_model=ProcessAnswer,
            responses=ERRORS,
            openapi_extra=described,
        )
        router.add_api_route("/models", models, methods=[method], name=f"models_{method.lower()}")
    return router


def _service_meant(asked: str, served: Served) -> tuple[Service, str]:
    """Return the model that the client means, and the treebank in a model of several; empty if the name has none."""
    name = model_meant(asked, served.names)
    if name and name not in served.names:
        for service in served:
            treebank = treebank_meant(asked, service.languages())
            if treebank:
                return service, treebank
    return served.find(name), ""


async def _result(wanted: UDPipeRequest, service: Service, treebank: str) -> str:
    """Return the text of the response; `treebank` is empty if the model identifies the language."""
    before: Sequence[Sentence]
    found: Sequence[Sentence]
    is_asked = wanted.is_tagged or wanted.is_parsed
    run = partial(service.read_or_write, len(wanted.data))
    if wanted.tokenizer is not None:
        asked = ParseJob(text=wanted.data, lines="presegmented" in wanted.tokenizer, language=treebank)
        found = await service.ask(asked, "trees" if is_asked else "cut")
        before = await run(partial(_cut, found, wanted.tokenizer))
    else:
        before = found = await run(partial(read_sentences, wanted.data, wanted.input))
        if is_asked:
            untagged = await run(partial(_without_tags, before, service.parser)) if wanted.is_tagged else before
            found = await service.ask(ParseJob(sentences=tuple(untagged), language=treebank), "trees")

    def written() -> str:
        sentences = [_with_stages(old, new, wanted) for old, new in zip(before, found, strict=True)]
        return write_sentences(sentences, wanted.output, wanted.output_options, model=wanted.model)

    return await run(written)


def _cut(found: Sequence[Sentence], options: Sequence[str]) -> Sequence[Sentence]:
    """Return the sentences of a text without tags, features, lemmas and arcs."""
    sentences: Sequence[Sentence] = as_new_document([_bare(each) for each in found])
    if "ranges" in options:
        sentences = with_ranges(sentences)
    return [with_normal_spaces(each) for each in sentences] if "normalized_spaces" in options else sentences


def _bare(sentence: Sentence) -> Sentence:
    blank = (BLANK,) * len(sentence)
    bare = sentence.with_tags(**dict.fromkeys(COLUMNS, blank))
    return bare.with_arcs(Arcs((None,) * len(sentence), blank))


def _without_tags(sentences: Sequence[Sentence], parser: Parser) -> list[Sentence]:
    """Return the sentences without the tags that the model predicts, since UDPipe's tagger replaces them."""
    columns = parser.model.settings.tags.predicted
    return [each.with_tags(**dict.fromkeys(columns, (BLANK,) * len(each))) for each in sentences]


def _with_stages(old: Sentence, new: Sentence, wanted: UDPipeRequest) -> Sentence:
    """Return the old sentence with the requested annotations of the new one."""
    if wanted.is_tagged:
        old = old.with_tags(upos=new.upos, xpos=new.xpos, feats=new.feats, lemma=new.lemma)
    return old.with_arcs(new.arcs) if wanted.is_parsed else old


def _stages(parser: Parser) -> list[str]:
    can = {"tokenizer": parser.segmenter is not None, "tagger": parser.tags == "predicted", "parser": True}
    return [stage for stage, is_there in can.items() if is_there]


def _check_stages(wanted: UDPipeRequest, service: Service) -> None:
    """Raise an error for a stage that the model does not have, as UDPipe does."""
    asked = {"tokenizer": wanted.tokenizer is not None, "tagger": wanted.is_tagged}
    for stage, hint in (
        ("tokenizer", "Send sentences divided into words, such as CoNLL-U."),
        ("tagger", "Leave out that parameter."),
    ):
        if asked[stage] and stage not in _stages(service.parser):
            raise TreefineError(f"The model {service.name} has no {stage}.", hint=hint)


async def _parameters(request: Request, max_bytes: int) -> dict[str, str]:
    """Return the parameters of the query string and of the body; the body wins."""
    pairs = partial(parse_qsl, keep_blank_values=True, errors="strict")
    kind = request.headers.get("content-type", "")
    try:
        params = dict(pairs(request.scope["query_string"].decode()))
        if request.method != "POST":
            await request.body()  # empty; until it is read, the gate takes the request for incomplete
            return params
        if kind.lower().startswith("multipart/form-data"):
            return params | await _parts(request, kind, max_bytes)
        body = await request.body()
        if body and not kind.lower().startswith("application/x-www-form-urlencoded"):
            hint = "Send Content-Type: application/x-www-form-urlencoded or multipart/form-data."
            message = f"The Content-Type {kind[:80]!r} is not supported." if kind else "The Content-Type is missing."
            raise TreefineError(message, hint=hint)
        return params | dict(pairs(body.decode()))
    except UnicodeDecodeError as error:
        raise TreefineError("The request is not UTF-8.", hint="Encode it as UTF-8.") from error


async def _parts(request: Request, kind: str, max_bytes: int) -> dict[str, str]:
    """Return the parts of a multipart body, including files.

    Starlette would decode them with whatever charset a client names. Latin-1 keeps every byte for us to decode.
    """
    headers = Headers({"content-type": f"{kind}; charset=latin-1"})  # the last charset counts
    parser = MultiPartParser(
        headers, request.stream(), max_files=_MAX_PARTS, max_fields=_MAX_PARTS, max_part_size=max_bytes
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise TreefineError("The multipart body cannot be read.", hint=error.message) from error
    found = {}
    try:
        for name, part in form.multi_items():
            if isinstance(part, UploadFile):
                found[name] = (await part.read()).decode()
            else:
                found[name] = with_line_feeds(part.encode("latin-1").decode())
    finally:
        await form.close()
    return found


def checked_format(asked: str, known: Sequence[str], name: str) -> tuple[str, tuple[str, ...]]:
    """Return the format in a parameter such as `horizontal=paragraphs`, and its options; unknown ones are ignored.

    >>> checked_format("plaintext=normalized_spaces", OUTPUTS, "output")
    ('plaintext', ('normalized_spaces',))
    """
    format, _, options = asked.partition("=")
    if format not in known:
        raise TreefineError(f"Unknown {name} format {format[:40]!r}.", hint=f"Choose {', '.join(known)}.")
    return format, options_in(options)


def options_in(asked: str) -> tuple[str, ...]:
    """Return the options of a parameter such as `ranges;presegmented`."""
    return tuple(option.strip() for option in asked.split(";"))


def read_sentences(data: str, format: str) -> tuple[Sentence, ...]:
    """Read the data of a request in a format that is divided into words."""
    data = with_line_feeds(data.removeprefix("\ufeff"))
    if format == "horizontal":
        return tuple(_sentences(_horizontal(data)))
    if format == "vertical":
        return tuple(_sentences(_vertical(data)))
    return tuple([replace(each, layout=PLAIN) for each in conllu_sentences(data)]) if data.strip() else ()


def with_line_feeds(data: str) -> str:
    """Return the text with each line end as a line feed, since libraries that send forms turn them into CRLF."""
    return data.replace("\r\n", "\n").replace("\r", "\n")


def write_sentences(sentences: Sequence[Sentence], format: str, options: Iterable[str], *, model: str) -> str:
    """Return the sentences in an output format; CoNLL-U starts with its generator and model, as UDPipe's does."""
    if format == "plaintext" and "normalized_spaces" not in options:
        return text_of(sentences)
    if format == "conllu":
        first = (f"# generator = treefine {__version__}", f"# udpipe_model = {model}")
        made = [replace(each, comments=(*first, *each.comments)) for each in sentences[:1]]
        return "".join([each.to_conllu() for each in (*made, *sentences[1:])])
    if format == "matxin":
        return (
            "<corpus>"
            + "".join(starmap(_matxin, enumerate(sentences, start=1)))
            + "\n" * (not sentences)
            + "</corpus>\n"
        )
    shows_paragraphs = format == "plaintext" or "paragraphs" in options
    return "".join(
        [
            ("\n" if number and shows_paragraphs and any(map(_PARAGRAPH_START.match, each.comments)) else "")
            + _written(each, format)
            for number, each in enumerate(sentences)
        ]
    )


def as_new_document(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Return the sentences, the first with the comments that start a document."""
    first = [replace(each, comments=("# newdoc", "# newpar", *each.comments)) for each in sentences[:1]]
    return (*first, *sentences[1:])


def with_ranges(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Return the sentences of a text with the character range of each token in MISC, such as TokenRange=0:4."""
    notes = (f"TokenRange={start}:{end}" for start, end in raw_text(sentences).spans)
    return tuple([_with_token_notes(each, notes) for each in sentences])


def with_normal_spaces(sentence: Sentence) -> Sentence:
    """Return the sentence without notes on white space in MISC, except SpaceAfter=No."""
    dropped = ("SpacesBefore=", "SpacesAfter=")
    misc = [
        "|".join([note for note in cell.split("|") if not note.startswith(dropped)]) for cell in sentence.columns[-1]
    ]
    return replace(sentence, columns=(*sentence.columns[:-1], tuple([cell or BLANK for cell in misc])))


def _horizontal(data: str) -> Iterator[tuple[int, bool, list[str]]]:
    """Yield the line, whether a paragraph starts there, and the words of each sentence."""
    starts = True
    for number, line in enumerate(data.split("\n"), start=1):
        words = [word.replace(_NO_BREAK_SPACE, " ") for word in re.split("[ \t]+", line) if word]
        if words:
            yield number, starts, words
        starts = not words


def _vertical(data: str) -> Iterator[tuple[int, bool, list[str]]]:
    """Yield the same for data with one word per line, in the first column, and a blank line after each sentence."""
    starts, first, n_blank, words = True, 1, 0, list[str]()
    for number, line in enumerate((*data.split("\n"), ""), start=1):
        word = line.lstrip("\t").partition("\t")[0].strip(" ")
        if word and not words:
            first, starts, n_blank = number, starts or n_blank > 1, 0
        if word:
            words.append(word)
            continue
        n_blank += 1
        if words:
            yield first, starts, words
            starts, words = False, []


def _sentences(found: Iterable[tuple[int, bool, list[str]]]) -> Iterator[Sentence]:
    for number, (line, starts_paragraph, words) in enumerate(found, start=1):
        try:
            sentence = Sentence.of_words(words)
        except TreebankError as error:
            raise TreebankError(error.message, line=line, sentence=number) from error
        start = ["# newdoc"] * (number == 1) + ["# newpar"] * starts_paragraph
        yield replace(sentence, comments=(*start, f"# sent_id = {number}"), line=line, number=number)


def _written(sentence: Sentence, format: str) -> str:
    if format == "horizontal":
        return " ".join([form.replace(" ", _NO_BREAK_SPACE) for form in sentence.forms]) + "\n"
    if format == "vertical":
        return "\n".join(sentence.forms) + "\n\n"
    return "".join([token.form + " " * bool(gap_of(token.misc)) for token in sentence.tokens()]).rstrip(" ") + "\n"


def _matxin(number: int, sentence: Sentence) -> str:
    """Return the XML of a sentence: the words in nested nodes. As in UDPipe, it has no words without a head."""
    heads, labels = sentence.arcs
    feats = [cell if cell != BLANK else "" for cell in sentence.feats]
    cells = list(zip(sentence.forms, sentence.lemma, feats, labels, strict=True))
    dependents: dict[int | None, list[int]] = {}
    for word in range(len(sentence), 0, -1):
        dependents.setdefault(heads[word - 1], []).append(word)
    lines = [f'\n<SENTENCE ord="{number}" alloc="0">']
    waiting = [(word, 1) for word in dependents.get(0, ())]  # words with their depth; 0 closes a node
    while waiting:
        word, depth = waiting.pop()
        indent = " " * min(depth, _MAX_INDENT)
        if not word:
            lines.append(f"{indent}</NODE>")
            continue
        form, lemma, feat, label = (escape(cell, {'"': "&quot;"}) for cell in cells[word - 1])
        end = ">" if word in dependents else "/>"
        lines.append(f'{indent}<NODE ord="{word}" alloc="0" form="{form}" lem="{lemma}" mi="{feat}" si="{label}"{end}')
        if word in dependents:
            waiting += [(0, depth), *((each, depth + 1) for each in dependents[word])]
    return "\n".join([*lines, "</SENTENCE>\n"])


def _with_token_notes(sentence: Sentence, notes: Iterator[str]) -> Sentence:
    """Return the sentence with one more note per token; a multiword token has it on its own line."""
    misc, covered = list(sentence.columns[-1]), 0
    for line, identifier in enumerate(sentence.columns[0]):
        first, _, last = identifier.partition("-")
        if int(first) > covered:
            covered = int(last or first)
            misc[line] = "|".join([note for note in (misc[line], next(notes)) if note != BLANK])
    return replace(sentence, columns=(*sentence.columns[:-1], tuple(misc)))


@cache
def _language_codes() -> Mapping[str, str]:
    """Map each name of a language (its UD code, its ISO 639-3 code, UDPipe's name) to its UD code."""
    rows = files("treefine.serving").joinpath("languages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return _CODES_OF_NORWEGIAN | {name: names[0] for names in (row.split("\t") for row in rows) for name in names}


def model_meant(asked: str, names: Sequence[str]) -> str:
    """Return the model that the client means, or `asked` itself if no model matches.

    A name is a language, optionally followed by a treebank and a version. As in UDPipe, the part before a hyphen is
    enough, and the first match wins. Any name of a language is accepted, versions are ignored, and a name without a
    treebank matches a model with one.

    >>> model_meant("english-ewt-ud-2.5-191206", ["tr_imst", "en"])
    'en'
    >>> model_meant("tur", ["tr_boun", "tr_imst"]), model_meant("turkish-imst", ["tr_boun", "tr_imst"])
    ('tr_boun', 'tr_imst')
    >>> model_meant("turkish-penn", ["tr_boun", "tr_imst"]), model_meant("", ["en"])
    ('turkish-penn', '')
    >>> model_meant("en", ["en-gum", "en"]), model_meant("english-gum", ["en", "en_gum"])
    ('en', 'en_gum')
    """
    if not asked or asked in names:
        return asked
    for name in names:
        if name.startswith(f"{asked}-"):
            return name
    language, treebank = _language_and_treebank(asked)
    same = [name for name in names if _language_and_treebank(name)[0] == language]
    fitting = [name for name in same if not treebank or _language_and_treebank(name)[1] in ("", treebank)]
    return min(fitting, key=lambda name: _language_and_treebank(name)[1] != treebank, default=asked)


def treebank_meant(asked: str, known: LanguageChoice) -> str:
    """Return the treebank of a model of several languages that the client means; empty if none matches.

    If the model does not have the treebank of the name, the main treebank of the language is returned.

    >>> known = LanguageChoice(
    ...     ("nb_bokmaal", "nn_nynorsk", "tr_atis", "tr_boun"), {"nb": "nb_bokmaal", "tr": "tr_boun"}
    ... )
    >>> treebank_meant("turkish-atis-ud-2.15-241121", known), treebank_meant("tr_imst", known)
    ('tr_atis', 'tr_boun')
    >>> treebank_meant("norwegian-nynorsk-ud-2.5-191206", known), treebank_meant("nor", known)
    ('nn_nynorsk', 'nb_bokmaal')
    """
    language, treebank = _language_and_treebank(asked)
    same = [code for code in known.treebanks if language in (language_of(code), _NORWEGIAN.get(language_of(code)))]
    named = [code for code in same if code.partition("_")[2] == treebank]
    main = [code for code in same if code in known.main.values()]
    return next(iter((*named, *main)), "")


def udpipe_name(treebank: str) -> str:
    """Return the name of a treebank as UDPipe names its models, without a version.

    >>> udpipe_name("gd_arcosg"), udpipe_name("nn_nynorsk"), udpipe_name("xx_new")
    ('scottish_gaelic-arcosg', 'norwegian-nynorsk', 'xx-new')
    """
    code, _, name = treebank.partition("_")
    names = {code: name for name, code in _language_codes().items()}  # the last name of a row is UDPipe's
    return f"{names.get(_NORWEGIAN.get(code, code), code)}-{name}"


def _language_and_treebank(name: str) -> tuple[str, str]:
    """Return the code of the language, and the treebank if the name has one.

    >>> (
    ...     _language_and_treebank("ancient_greek-perseus-ud-2.5-191206"),
    ...     _language_and_treebank("en_ewt-ud-2.15-241121"),
    ...     _language_and_treebank("czech-ud-2.0-170801"),
    ... )
    (('grc', 'perseus'), ('en', 'ewt'), ('cs', ''))
    """
    language, _, rest = name.lower().partition("-")
    treebank = rest.partition("-")[0]
    codes = _language_codes()
    if language not in codes:
        language, _, found = language.partition("_")
        treebank = found or treebank
    return codes.get(language, language), "" if treebank == "ud" else treebank
