"""Write train.conllu and dev.conllu: a small language in which reading the words once is not enough.

A sentence has a subject, after "the", and an object, after "a". Every other noun attaches to another noun, and its
preposition says to which kind: "of" to a person, "near" to an animal, and so on. Each kind of noun occurs at most once
in a sentence, and the phrases may be in any order:

    under sister in rose sells of bread a village the lamp .
    village <- in rose, rose <- under sister, sister <- of bread

So each head can be found from a word and the one before it. Labels cannot: below the subject a noun is `nmod` and its
preposition `case`; below the object they are `obl` and `mark`, at any distance. To find the label, a network must
follow the chain from noun to noun, and a shallow network has too few layers for that. But if it reads a graph, each
noun sees the label of its head, and refinement carries the label down the chain.

The tests write the files to a temporary folder. `python tests/data/toy/make.py FOLDER` writes the same files.
"""

import random
import sys
from pathlib import Path

FILES = {"train.conllu": (700, 1), "dev.conllu": (100, 2)}  # number of sentences, seed
NOUNS = {  # by the preposition of the nouns that attach to them
    "of": ["king", "sister", "baker", "child"],
    "near": ["dog", "horse", "bird", "fox"],
    "under": ["tree", "rose", "vine", "hedge"],
    "in": ["house", "village", "garden", "harbour"],
    "for": ["knife", "lamp", "rope", "spoon"],
    "with": ["bread", "soup", "cake", "honey"],
}
VERBS = ["sees", "likes", "finds", "draws", "sells"]
SIDES = [("the", "nsubj", "case", "nmod"), ("a", "obj", "mark", "obl")]  # article, label, labels below


def sentence(rng):
    """Return words as (form, tag, form of the head, label); each form of a head is unique in the sentence."""
    verb = rng.choice(VERBS)
    phrases = [[(verb, "VERB", "", "root")]]
    last = {}  # for each side: the lowest noun, and the preposition of nouns that attach to it
    for number, preposition in enumerate(rng.sample(list(NOUNS), rng.randint(3, 6))):
        side = number if number < 2 else rng.randrange(2)
        noun = rng.choice(NOUNS[preposition])
        article, top, above, below = SIDES[side]
        if side in last:
            head, marker = last[side]
            phrases.append([(marker, "ADP", noun, above), (noun, "NOUN", head, below)])
        else:
            phrases.append([(article, "DET", noun, "det"), (noun, "NOUN", verb, top)])
        last[side] = noun, preposition
    rng.shuffle(phrases)
    return [*(word for phrase in phrases for word in phrase), (".", "PUNCT", verb, "punct")]


def text(name):
    """Return the content of a file."""
    n_sentences, seed = FILES[name]
    rng = random.Random(seed)
    lines = []
    for number in range(1, n_sentences + 1):
        words = sentence(rng)
        forms = [form for form, *_ in words]
        lines.append(f"# sent_id = {name.partition('.')[0]}-{number}")
        for place, (form, tag, head, label) in enumerate(words, start=1):
            head_place = forms.index(head) + 1 if head else 0
            lines.append(f"{place}\t{form}\t_\t{tag}\t_\t_\t{head_place}\t{label}\t_\t_")
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def write_files(folder: Path):
    """Write both files to a folder."""
    for name in FILES:
        (folder / name).write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
