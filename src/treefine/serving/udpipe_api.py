"""A REST API compatible with UDPipe's service at LINDAT; its clients only need a new address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile

from treefine.config import COLUMNS, Column
from treefine.errors import TreefineError
from treefine.model.vocabulary import language_of
from treefine.parsing.parser import Parser
from treefine.parsing.plan import LanguageChoice
from treefine.serving.batching import Models, ModelServer
from treefine.serving.requests import ParseRequest, ResultKind, conllu_sentences
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import gap_of, raw_text, text_of
from treefine.treebank.sentence import BLANK, PLAIN, Sentence
from treefine.version import __version__

# udapi sends words as "horizontal": one sentence per line, words separated by spaces.
INPUTS = ("conllu", "generic_tokenizer", "horizontal")
OUTPUTS = ("conllu", "plaintext")
_WORDS = re.compile("[^ \t]+")
_PARAGRAPH_START = re.compile(r"#\s*new(doc|par)\b")
_SPACES = re.compile(r"\|Spaces(Before|After)=[^|]*")
_PREFIXES = ("", "/api", "/services/udpipe/api")  # clients may add these between the address and the route
_MAX_PARTS = 100  # of a multipart body
# UDPipe calls both written forms of Norwegian by one name, and tells them apart by their treebanks.
_NORWEGIAN = {"nb": "no", "nn": "no"}
_CODES_OF_NORWEGIAN = {"nb": "nb", "nob": "nb", "nn": "nn", "nno": "nn"}


class UDPipeRequest:
    """The parameters of a request. A parameter that is present, even empty, requests its stage."""

    def __init__(self, params: Mapping[str, str]) -> None:
        if "data" not in params:
            raise TreefineError("The parameter data is missing.", hint="Put the text or the CoNLL-U into it.")
        self.data, self.model = params["data"], params.get("model", "")
        self.input, options = _format(params, "input", INPUTS)
        self.output, self.output_options = _format(params, "output", OUTPUTS)
        if "tokenizer" in params:
            options = params["tokenizer"]
        # Its options, or None if the data is divided into words. The model's own segmenter stands for a generic one.
        has_text = "tokenizer" in params or self.input == "generic_tokenizer"
        self.tokenizer = options.split(";") if has_text else None
        self.is_tagged, self.is_parsed = (params.get(name, "none") != "none" for name in ("tagger", "parser"))


def _format(params: Mapping[str, str], side: str, known: Sequence[str]) -> tuple[str, str]:
    format, _, options = params.get(side, "conllu").partition("=")
    if format not in known:
        raise TreefineError(f"Unknown {side} format {format[:40]!r}.", hint=f"Choose {', '.join(known)}.")
    return format, options


def udpipe_routes(models: Models) -> APIRouter:
    """Return the routes of UDPipe's API over these models."""
    router, choices = APIRouter(include_in_schema=False), {name: server.languages() for name, server in models.items()}

    async def process(request: Request) -> JSONResponse:
        """Segment, tag and parse like UDPipe; the parameters can also be a form in the body of a POST request."""
        wanted = UDPipeRequest(await _parameters(request, models.find().limits.max_bytes))
        name, treebank = model_meant(wanted.model, choices)
        server = models.find(name)
        wanted.model = udpipe_name(treebank) if treebank else server.name
        for stage, is_wanted in (("tokenizer", wanted.tokenizer is not None), ("tagger", wanted.is_tagged)):
            if is_wanted and stage not in _stages(server.parser):
                raise TreefineError(f"The model {server.name} has no {stage}.", hint="Leave out that parameter.")
        result = await _result(wanted, server, treebank)
        thanks = [f"treefine {__version__}"]  # UDPipe lists URLs here, which no client reads
        return JSONResponse({"model": wanted.model, "acknowledgements": thanks, "result": result})

    async def list_models() -> dict[str, Any]:
        """List the models in the form of UDPipe's API: each model, then the treebanks of a model of several."""
        stages = {name: _stages(server.parser) for name, server in models.items()}
        for name in models:
            for treebank in choices[name].treebanks:
                if model_meant(udpipe_name(treebank), choices) == (name, treebank):  # not of another model in the list
                    stages[udpipe_name(treebank)] = stages[name]
        return {"models": stages, "default_model": models.find().name}

    for path, answer in (("/process", process), ("/models", list_models)):
        for prefix in _PREFIXES:
            router.add_api_route(prefix + path, answer, methods=["GET", "POST"])
    return router


async def _result(wanted: UDPipeRequest, server: ModelServer, treebank: str) -> str:
    """Return the text of the response; `treebank` is empty if the model identifies the language."""
    result: ResultKind = "trees" if wanted.is_tagged or wanted.is_parsed else "sentences"
    given: list[Sentence] = []

    def read() -> ParseRequest:
        if wanted.tokenizer is not None:
            has_lines = "presegmented" in wanted.tokenizer
            return ParseRequest(wanted.data, result=result, has_lines=has_lines, language=treebank)
        given.extend(read_sentences(wanted.data, wanted.input))
        columns = server.parser.model.settings.tags.predicted if wanted.is_tagged else ()
        words = tuple(_without(each, columns) for each in given)  # UDPipe's tagger replaces the tags
        return ParseRequest(sentences=words, result=result, language=treebank)

    def write(after: list[Sentence]) -> str:
        before, sentences = given if wanted.tokenizer is None else _segmented(after, wanted.tokenizer), []
        for old, new in zip(before, after, strict=True):
            if wanted.is_tagged:
                old = old.with_tags(upos=new.upos, xpos=new.xpos, feats=new.feats, lemma=new.lemma)
            sentences.append(old.with_arcs(new.arcs) if wanted.is_parsed else old)
        return write_sentences(sentences, wanted)

    return await server.answer(len(wanted.data), read, write)


def _without(sentence: Sentence, columns: Iterable[Column]) -> Sentence:
    return sentence.with_tags(**dict.fromkeys(columns, (BLANK,) * len(sentence)))


def _stages(parser: Parser) -> list[str]:
    can = {"tokenizer": parser.segmenter is not None, "tagger": parser.tags == "predicted", "parser": True}
    return [stage for stage, is_there in can.items() if is_there]


async def _parameters(request: Request, max_bytes: int) -> dict[str, str]:
    """Return the parameters of the query string and of the body; the body wins."""

    def pairs(encoded: bytes) -> dict[str, str]:
        return dict(parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict"))

    kind = request.headers.get("content-type", "")
    try:
        params = pairs(request.scope["query_string"])
        if request.method != "POST":
            return params
        if kind.lower().startswith("multipart/form-data"):
            return params | await _parts(request, kind, max_bytes)
        body = await request.body()
        if body and not kind.lower().startswith("application/x-www-form-urlencoded"):
            hint = "Send Content-Type: application/x-www-form-urlencoded or multipart/form-data."
            message = f"The Content-Type {kind[:80]!r} is not supported." if kind else "The Content-Type is missing."
            raise TreefineError(message, hint=hint)
        return params | pairs(body)
    except UnicodeDecodeError as error:
        raise TreefineError("The request is not UTF-8.", hint="Encode it as UTF-8.") from error


async def _parts(request: Request, kind: str, max_bytes: int) -> dict[str, str]:
    """Return the parts of a multipart body, including files.

    Starlette would decode them with whatever charset a client names. Latin-1 keeps every byte for us to decode.
    """
    headers = [(b"content-type", f"{kind}; charset=latin-1".encode("latin-1"))]  # the last charset counts
    request = Request({**request.scope, "headers": headers}, request.receive)
    async with request.form(max_files=_MAX_PARTS, max_fields=_MAX_PARTS, max_part_size=max_bytes) as form:
        return {
            name: (await part.read()).decode()
            if isinstance(part, UploadFile)
            else _with_line_feeds(part.encode("latin-1").decode())
            for name, part in form.multi_items()
        }


def read_sentences(data: str, format: str) -> Sequence[Sentence]:
    """Read the data of a request that is divided into words."""
    data = _with_line_feeds(data.removeprefix("\ufeff"))
    if format == "horizontal":
        return [Sentence.of_words(words) for words in map(_WORDS.findall, data.split("\n")) if words]
    return [replace(each, layout=PLAIN) for each in conllu_sentences(data)] if data.strip() else []


def _with_line_feeds(data: str) -> str:
    """Return the text with each line end as a line feed, since libraries that send forms turn them into CRLF."""
    return data.replace("\r\n", "\n").replace("\r", "\n")


def write_sentences(sentences: Sequence[Sentence], wanted: UDPipeRequest) -> str:
    """Return the sentences in the output format; CoNLL-U starts with its generator and model, as UDPipe's does."""
    if wanted.output == "conllu":
        first = (f"# generator = treefine {__version__}", f"# udpipe_model = {wanted.model}")
        with_comments = [replace(each, comments=(*first, *each.comments)) for each in sentences[:1]]
        return "".join([each.to_conllu() for each in (*with_comments, *sentences[1:])])
    if "normalized_spaces" not in wanted.output_options.split(";"):
        return text_of(sentences)
    return "".join(
        "\n" * (number > 0 and any(map(_PARAGRAPH_START.match, each.comments)))
        + "".join([token.form + " " * bool(gap_of(token.misc)) for token in each.tokens()]).rstrip(" ")
        + "\n"
        for number, each in enumerate(sentences)
    )


def _segmented(sentences: Sequence[Sentence], options: Sequence[str]) -> Sequence[Sentence]:
    """Return the sentences of a text without tags, features, lemmas and arcs, the first as the start of a document."""
    bare = [_without(each, COLUMNS) for each in sentences]
    bare = [each.with_arcs(Arcs((None,) * len(each), (BLANK,) * len(each))) for each in bare]
    bare[:1] = [replace(each, comments=("# newdoc", "# newpar", *each.comments)) for each in bare[:1]]
    if "ranges" in options:
        notes = (f"TokenRange={start}:{end}" for start, end in raw_text(bare).spans)
        bare = [_with_token_notes(each, notes) for each in bare]
    if "normalized_spaces" in options:  # of the notes on white space, only SpaceAfter=No stays
        bare = [
            _with_misc(each, [_SPACES.sub("", f"|{cell}").lstrip("|") for cell in each.columns[-1]]) for each in bare
        ]
    return bare


def _with_token_notes(sentence: Sentence, notes: Iterator[str]) -> Sentence:
    """Return the sentence with one more note per token; a multiword token has it on its own line."""
    misc, covered = list(sentence.columns[-1]), 0
    for line, identifier in enumerate(sentence.columns[0]):
        first, _, last = identifier.partition("-")
        if int(first) > covered:
            covered = int(last or first)
            misc[line] = "|".join([note for note in (misc[line], next(notes)) if note != BLANK])
    return _with_misc(sentence, misc)


def _with_misc(sentence: Sentence, misc: Iterable[str]) -> Sentence:
    return replace(sentence, columns=(*sentence.columns[:-1], tuple([cell or BLANK for cell in misc])))


@cache
def _language_codes() -> Mapping[str, str]:
    """Map each name of a language (its UD code, its ISO 639-3 code, UDPipe's name) to its UD code."""
    rows = files("treefine.serving").joinpath("languages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return _CODES_OF_NORWEGIAN | {name: names[0] for names in (row.split("\t") for row in rows) for name in names}


def model_meant(asked: str, known: Mapping[str, LanguageChoice]) -> tuple[str, str]:
    """Return the name of the model that the client means, or `asked` if there is none; and its treebank or "".

    A name is a language, optionally followed by a treebank and a version. As in UDPipe, the part before a hyphen is
    enough, and the first match wins. Any name of a language is accepted, versions are ignored, and a name without a
    treebank matches a model with one. In a model of several languages, the main treebank of a language stands for those
    that the model does not have.

    >>> one, two = LanguageChoice((), {}, ()), LanguageChoice(("nb_bokmaal", "tr_atis"), {"nb": "nb_bokmaal"}, ())
    >>> model_meant("tur", {"tr_boun": one, "tr_imst": one}), model_meant("en", {"en-gum": one, "en": one})
    (('tr_boun', ''), ('en', ''))
    >>> model_meant("english-gum", {"en": one, "en_gum": one}), model_meant("norwegian", {"all": two})
    (('en_gum', ''), ('all', 'nb_bokmaal'))
    """
    if not asked or asked in known:
        return asked, ""
    for name in known:
        if name.startswith(f"{asked}-"):
            return name, ""
    language, treebank = _language_and_treebank(asked)
    treebank_of = {
        name: of_model for name in known for code, of_model in [_language_and_treebank(name)] if code == language
    }
    fitting = [name for name, of_model in treebank_of.items() if not treebank or of_model in ("", treebank)]
    if fitting:
        return min(fitting, key=lambda name: treebank_of[name] != treebank), ""
    for name, choice in known.items():
        same = [code for code in choice.treebanks if language in (language_of(code), _NORWEGIAN.get(language_of(code)))]
        named = [code for code in same if code.partition("_")[2] == treebank]
        main = [code for code in same if code in choice.main.values()]
        if named or main:
            return name, (named or main)[0]
    return asked, ""


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

    >>> [*map(_language_and_treebank, ["ancient_greek-perseus-ud-2.5", "en_ewt-ud-2.15", "czech-ud-2.0-170801"])]
    [('grc', 'perseus'), ('en', 'ewt'), ('cs', '')]
    """
    language, _, rest = name.lower().partition("-")
    treebank = rest.partition("-")[0]
    codes = _language_codes()
    if language not in codes:
        language, _, after = language.partition("_")
        treebank = after or treebank
    return codes.get(language, language), "" if treebank == "ud" else treebank
