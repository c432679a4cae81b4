"""udapi, a client written for UDPipe, works with our server once its address is changed."""

from udapi.block.udpipe.base import Base
from udapi.core.document import Document
from udapi.tool.udpipeonline import UDPipeOnline

import treefine
from tests.support.tiny_app import listening

TEXTS = ["She saw the old man.", "He can't sleep, and dogs bark."]
MODEL = "english-ewt-ud-2.5-191206"  # as clients name theirs


def analyse(client, texts, **options):
    """Run udapi's block udpipe.Base as `udapy udpipe.Base online=1` does."""
    block, document = Base(model=MODEL, online=True, **options), Document()
    for text in texts:
        document.create_bundle().create_tree().text = text
    block._tool = client  # the block has no option for the address
    block.process_document(document)
    return list(document.trees)


def test_udapi_segments_tags_and_parses_documents_and_texts():
    parser = treefine.load("en")
    with listening({"en": parser}) as address:
        client = UDPipeOnline(MODEL, server=f"{address}/services/udpipe/api")
        trees = analyse(client, TEXTS)
        resegmented = analyse(client, [" ".join(TEXTS)], resegment=True, ranges=True)

        assert client.list_models() == ["en"]
        assert client.segment_text("\n".join(TEXTS)) == TEXTS
    for tree, text in zip(trees, TEXTS, strict=True):
        columns = [(node.form, node.upos, node.xpos, node.parent.ord, node.deprel) for node in tree.descendants]
        assert columns == [(word.form, word.upos, word.xpos, word.head, word.label) for word in parser(text)[0].words]
    assert [node.no_space_after for node in trees[0].descendants] == [False, False, False, False, True, False]
    assert [tree.text for tree in trees] == [tree.text for tree in resegmented] == TEXTS
    assert resegmented[1].descendants[0].misc["TokenRange"] == "21:23"
