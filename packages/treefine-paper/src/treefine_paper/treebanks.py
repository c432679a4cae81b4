"""The sixteen treebanks of the paper (Sec. 5.1): their encoders, and how to find their files in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from treefine.errors import TreefineError
from treefine.treebank.files import COMPRESSED

MULTILINGUAL = "bert-base-multilingual-cased"
CHINESE = "bert-base-chinese"
JAPANESE = "cl-tohoku/bert-base-japanese"
SPLITS = ("train", "dev", "test")
RELEASE = "2.3"  # of Universal Dependencies, in the paper
_DEPTH = 4  # folders below the given one
_SPLIT_WORDS = {"train": "train", "dev": "dev|devel|development|valid", "test": "test|evaluation|eval"}
# As in ud-treebanks-v2.3, ud-2.3, r2.3 or ja_gsd-2.9.
_RELEASE_FOLDER = re.compile(r"(?:ud[\w-]*?[-_vr]|[vr]|[a-z]{2,3}_\w+-r?)(\d+\.\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class PaperTreebank:
    """A treebank of the paper."""

    code: str  # of UD, such as tr_imst
    language: str
    title: str
    encoder: str  # the pretrained encoder of the paper (Appendix A), by its name on the hub
    folders: tuple[str, ...]  # names of folders that hold its files
    source: str = f"UD {RELEASE}: http://hdl.handle.net/11234/1-2895"  # where to get it
    rule: str = "conll18"  # of the scores; the Penn Treebanks are scored without punctuation
    format: str = ""  # of the files; empty: by their names
    column: str = "upos"  # of the tags that the parser reads

    @property
    def is_ud(self) -> bool:
        """Whether it is one of the Universal Dependencies."""
        return self.rule == "conll18"


def _ud(code: str, name: str, encoder: str = MULTILINGUAL) -> PaperTreebank:
    return PaperTreebank(code, name.partition("-")[0], f"UD_{name}", encoder, (f"UD_{name}", code))


_PTB = "LDC99T42, converted to Stanford dependencies 3.3.0, with tags of the Stanford tagger"
_CTB = "LDC2005T01, converted by Penn2Malt with the head rules of Zhang and Clark (2008)"
_CTB_FOLDERS = ("ctb", "ctb5", "ctb5.1")
_GERMAN = ("de_conll09", "German", "CoNLL 2009 German", "bert-base-german-cased")
_GERMAN_FOLDERS = ("de_conll09", "german", "conll09-german", "conll2009-german")
_GERMAN_SOURCE = "LDC2012T03 (CoNLL 2009 shared task)"
_ALL = (
    _ud("ar_padt", "Arabic-PADT"),
    _ud("eu_bdt", "Basque-BDT"),
    _ud("zh_gsd", "Chinese-GSD", CHINESE),
    _ud("en_ewt", "English-EWT"),
    _ud("fi_tdt", "Finnish-TDT"),
    _ud("he_htb", "Hebrew-HTB"),
    _ud("hi_hdtb", "Hindi-HDTB"),
    _ud("it_isdt", "Italian-ISDT"),
    _ud("ja_gsd", "Japanese-GSD", JAPANESE),
    _ud("ko_gsd", "Korean-GSD"),
    _ud("ru_syntagrus", "Russian-SynTagRus"),
    _ud("sv_talbanken", "Swedish-Talbanken"),
    _ud("tr_imst", "Turkish-IMST"),
    PaperTreebank(
        "ptb", "English", "Penn Treebank", "bert-base-uncased", ("ptb", "wsj", "penn"), _PTB, "ptb", "conllx"
    ),
    PaperTreebank("ctb", "Chinese", "Chinese Penn Treebank 5.1", CHINESE, _CTB_FOLDERS, _CTB, "ptb", "conllx"),
    PaperTreebank(*_GERMAN, _GERMAN_FOLDERS, _GERMAN_SOURCE, "conll09", "conll09-predicted", "xpos"),
)
TREEBANKS = {treebank.code: treebank for treebank in _ALL}


@dataclass(frozen=True)
class PaperFiles:
    """The files of a treebank, all in one folder."""

    treebank: PaperTreebank
    folder: str = ""
    train: str = ""
    dev: str = ""
    test: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The splits without a file."""
        return tuple(split for split in SPLITS if not getattr(self, split))

    @property
    def release(self) -> str:
        """The UD release that a folder on the path names; empty if none does.

        >>> PaperFiles(TREEBANKS["ja_gsd"], "project-2.3/ud-later/ja_gsd-2.9").release
        '2.9'
        """
        parts = reversed(Path(self.folder).parts)
        matches = [match[1] for match in map(_RELEASE_FOLDER.fullmatch, parts) if match]
        return matches[0] if matches and self.treebank.is_ud else ""

    @property
    def is_comparable(self) -> bool:
        """Whether scores on these files can be compared with the paper's: UD must be of its release."""
        return not self.treebank.is_ud or self.release == RELEASE

    @property
    def format(self) -> str:
        """The format of the files for a recipe; a file that ends in .conllu is CoNLL-U."""
        return "" if ".conllu" in Path(self.train or self.dev).suffixes else self.treebank.format


def find_paper_files(folders: Sequence[str | os.PathLike[str]]) -> dict[str, PaperFiles]:
    """Find the files of each treebank of the paper below these folders.

    A treebank may be in several folders. A complete one comes first, then one of the paper's release, then the one in
    the folder that is named first.
    """
    places = list(_folders(folders))
    best = {}
    for code, treebank in TREEBANKS.items():
        several = [files for files in (_files_in(place, treebank) for place in places) if files.missing != SPLITS]
        order = sorted(several, key=lambda files: (len(files.missing), not files.is_comparable))
        best[code] = order[0] if order else PaperFiles(treebank)
    return best


def _folders(roots: Sequence[str | os.PathLike[str]]) -> Iterator[Path]:
    """Yield these folders and those below them, sorted by name."""
    for root in map(Path, roots):
        if not root.is_dir():
            raise TreefineError("There is no such folder.", hint="Name a folder of treebanks.", path=str(root))
        for place, inner, _ in os.walk(root):
            is_deep = len(Path(place).relative_to(root).parts) >= _DEPTH
            inner[:] = [] if is_deep else sorted(name for name in inner if not name.startswith("."))
            yield Path(place)


def _files_in(folder: Path, treebank: PaperTreebank) -> PaperFiles:
    """Return the files of this treebank in one folder: its own folder, or one with file names as UD has them."""
    is_own = any(re.fullmatch(rf"{re.escape(name)}(-[\d.]+)?", folder.name, re.IGNORECASE) for name in treebank.folders)
    before, after, suffixes = r"(.*[^a-z])?", r"([^a-z].*)?", "conllx|conll|conllu|conll09|conll2009|txt"
    if treebank.is_ud:
        before, after, suffixes = r"(\w+-ud-)?", "", "conllu"
    if not is_own:
        before = rf"{treebank.code}[-_](ud[-_])?"
    compressed = "|".join(map(re.escape, COMPRESSED))
    files = {}
    for split, words in _SPLIT_WORDS.items():
        name = re.compile(rf"{before}({words}){after}\.({suffixes})({compressed})?", re.IGNORECASE)
        names = [path.name for path in folder.iterdir() if name.fullmatch(path.name) and path.is_file()]
        if names:  # test.conllx before test.blind.conllx
            files[split] = str(folder / min(names, key=lambda each: (len(each), each)))
    return PaperFiles(treebank, str(folder), **files)


def in_words(parts: Sequence[str]) -> str:
    """Return the parts with commas and a last "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
