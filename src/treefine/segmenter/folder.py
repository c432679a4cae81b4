"""Save and load the folder of a segmenter. The weights are safetensors; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from treefine.config import SegmenterSettings, read_settings
from treefine.errors import ModelError
from treefine.model.folder import restored, rounded, unfilled
from treefine.model.weight_files import check_weights, read_json, read_weights, write_json
from treefine.segmenter.network import Alphabet, SegmenterNetwork
from treefine.treebank.multiword import Multiwords
from treefine.version import __version__

_FORMAT = 1  # of the folder; a higher one was saved by a later treefine
_CONFIG, _WEIGHTS, _MULTIWORDS = "config.json", "segmenter.safetensors", "multiword.json"
_AGAIN = "Copy or download it again."


def write_segmenter(
    network: SegmenterNetwork, alphabet: Alphabet, multiwords: Multiwords, most_spaces: int, folder: Path
) -> None:
    """Write the files of a segmenter into an existing folder, with weights in eight bits."""
    settings = {"segmenter": asdict(network.settings), "alphabet": alphabet.characters, "most_spaces": most_spaces}
    write_json(folder / _CONFIG, {"treefine": __version__, "format": _FORMAT, **settings})
    write_json(folder / _MULTIWORDS, asdict(multiwords))
    weights = {name: each.detach().cpu() for name, each in network.state_dict().items()}
    small = {name: each.contiguous() for name, each in rounded(weights).items()}
    for name, each in small.items():
        if not each.isfinite().all():
            raise ModelError(f"The weight {name} of the segmenter is not finite in 16 bits; nothing was saved.")
    save_file(small, folder / _WEIGHTS, metadata={"format": "pt"})
    (folder / _WEIGHTS).chmod((folder / _CONFIG).stat().st_mode)  # the library lets only the owner read it


def load_segmenter(folder: Path) -> tuple[SegmenterNetwork, Alphabet, Multiwords, int]:
    """Read what `write_segmenter` wrote; a ModelError names a file that is missing, damaged or foreign."""
    path = folder / _CONFIG
    config = read_json(path)
    if not _is_ours(config):
        raise ModelError("This is no config of a segmenter.", hint="Is this a segmenter's folder?", path=str(path))
    if config["format"] != _FORMAT:
        hint = f"It was saved by treefine {config.get('treefine')}; this is {__version__}."
        raise ModelError(f"The folder has format {config['format']!r}, not {_FORMAT}.", hint=hint, path=str(path))
    settings = read_settings(SegmenterSettings, config["segmenter"], path=str(path))
    characters, most_spaces = config.get("alphabet"), config.get("most_spaces")
    if not isinstance(characters, str) or len(set(characters)) < len(characters):
        raise ModelError("The alphabet is damaged: it must be different characters.", hint=_AGAIN, path=str(path))
    if type(most_spaces) is not int or most_spaces < 0:
        raise ModelError(f"most_spaces is {most_spaces!r}, not a number of spaces.", hint=_AGAIN, path=str(path))
    alphabet = Alphabet(characters, settings.n_hashes)
    with unfilled():
        network = SegmenterNetwork(settings, n_chars=len(alphabet))
    weights = restored(read_weights(folder / _WEIGHTS))
    check_weights(weights, network.state_dict(), path=str(folder / _WEIGHTS))
    network.load_state_dict(weights, assign=True)
    return network, alphabet, _read_multiwords(folder / _MULTIWORDS), most_spaces


def may_be_replaced(folder: Path) -> bool:
    """Return whether a folder is empty or holds a segmenter and nothing else."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    ours = {_CONFIG, _WEIGHTS, _MULTIWORDS}
    return not names or (names <= ours and _CONFIG in names and _is_ours(read_json(folder / _CONFIG)))


def _is_ours(config: Mapping[str, Any]) -> bool:
    return "format" in config and "segmenter" in config


def _read_multiwords(path: Path) -> Multiwords:
    values = read_json(path)
    try:
        forms = {form: _words(words) for form, words in values.pop("forms").items()}
        endings = _rules(values.pop("endings"), joined=0)
        beginnings = _rules(values.pop("beginnings"), joined=-1)
        if values:
            raise ValueError(f"{next(iter(values))} is unknown")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"The table of multiword tokens is damaged ({error}).", hint=_AGAIN, path=str(path)) from error
    return Multiwords(forms, endings, beginnings)


def _rules(values: Mapping[str, Any], *, joined: int) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Read rules; the word at `joined` is joined to the rest of the token, so it may be empty."""
    found = {}
    for key, (changed, words) in values.items():
        if type(changed) is not int or not 0 <= changed <= len(key):
            raise ValueError(f"{key!r} changes {changed!r} characters")
        found[key] = (changed, _words(words, joined=joined))
    return found


def _words(words: Any, *, joined: int | None = None) -> tuple[str, ...]:
    is_valid = isinstance(words, list) and len(words) > 1 and all(isinstance(word, str) for word in words)
    whole = [word for place, word in enumerate(words) if joined is None or place != joined % len(words)]
    if not is_valid or not all(whole) or any(mark in word for word in words for mark in "\t\n\r\0"):
        raise ValueError(f"{words!r} are no words")
    return tuple(words)
