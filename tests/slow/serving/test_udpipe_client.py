"""udapi, a client written for UDPipe, works with our server once its address is changed."""

import pytest
from udapi.block.udpipe.base import Base
from udapi.core.document import Document
from udapi.tool.udpipeonline import UDPipeOnline

import treefine
from tests.support.tiny_app import listening

TEXTS = ["She saw the old man.", "He can't sleep, and dogs bark."]
MODEL = "english-ewt-ud-2.5-191206"  # as clients name theirs


@pytest.fixture(scope="module")
def parser():
    return treefine.load("en")


@pytest.fixture(scope="module")
def client(parser):
    with listening({"en": parser}) as address:
        yield UDPipeOnline(MODEL, server=f"{address}/services/udpipe/api")


def document(texts):
    found = Document()
    for text in texts:
        found.create_bundle().create_tree().text = text
    return found


def analyse(client, texts, **options):
    """Run udapi's block udpipe.Base as `udapy udpipe.Base online=1` does."""
    block, found = Base(model=MODEL, online=True, **options), document(texts)
    block._tool = client  # the block has no option for the address
    block.process_document(found)
    return list(found.trees)


def columns(tree):
    return [(node.form, node.upos, node.xpos, node.parent.ord, node.deprel) for node in tree.descendants]


def columns_of(parse):
    return [(word.form, word.upos, word.xpos, word.head, word.label) for word in parse.words]


def test_a_document_is_segmented_tagged_and_parsed(client, parser):
    trees = analyse(client, TEXTS)

    assert [columns(tree) for tree in trees] == [columns_of(parser(text)[0]) for text in TEXTS]
    assert [tree.text for tree in trees] == TEXTS
    assert [node.no_space_after for node in trees[0].descendants] == [False, False, False, False, True, False]
    assert client.list_models() == ["en"]


def test_a_text_is_split_into_sentences(client):
    trees = analyse(client, [" ".join(TEXTS)], resegment=True, ranges=True)

    assert [tree.text for tree in trees] == client.segment_text("\n".join(TEXTS)) == TEXTS
    assert trees[1].descendants[0].misc["TokenRange"] == "21:23"


def test_given_words_are_tagged_and_parsed(client, parser):
    forms = ["Dogs", "do", "n't", "sleep", "."]
    root = document([""]).bundles[0].trees[0]
    for form in forms:
        root.create_child(form=form)

    client.tag_parse_tree(root)

    (parse,) = parser.stream([forms])
    assert columns(root) == columns_of(parse)


def test_a_multipart_request_has_the_same_result_as_a_urlencoded_one(client):
    """UDPipe's own client sends multipart requests, in which line feeds arrive as CRLF."""
    params = {"model": MODEL, "data": "\n".join(TEXTS), "tokenizer": "ranges", "tagger": "", "parser": ""}

    assert client.perform_request(params) == client.perform_request_urlencoded(params)
