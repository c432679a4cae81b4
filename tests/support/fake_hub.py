"""A hub and UD repositories on this machine, for the tutorial on training: no test needs a network."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.support.tiny import short
from tests.support.toy_hub import toy_encoder
from treefine.training import prepare, segmenter
from treefine.treebank.conllu import write_treebank

ENCODER = "bert-base-multilingual-cased"
TREEBANKS = {"UD_English-EWT": "en_ewt", "UD_English-Atis": "en_atis"}
GITHUB = "https://github.com/UniversalDependencies/"
HUB = "https://huggingface.co/"


@contextmanager
def treebanks_and_hub() -> Iterator[None]:
    """Let git clone toy treebanks, and let the hub's client find a tiny encoder and store models in a folder."""
    with tempfile.TemporaryDirectory() as name:
        hub, repositories = Path(name, "hub"), Path(name, "git")
        toy_encoder(hub / ENCODER, ENCODER)
        for title, short_name in TREEBANKS.items():
            write_repository(repositories / title, short_name)
        git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{repositories.as_uri()}/.insteadOf"}
        git |= {"GIT_CONFIG_VALUE_0": GITHUB}

        def download(name: str, **_: object) -> str:
            assert (hub / name).is_dir(), f"{name} is not on the hub"
            return str(hub / name)

        class Api:
            def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> str:
                (hub / name).mkdir(parents=True, exist_ok=exist_ok)
                return HUB + name

            def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
                shutil.copytree(folder_path, hub / repo_id, dirs_exist_ok=True)

        with (
            mock.patch.dict(os.environ, git),
            mock.patch("huggingface_hub.snapshot_download", download),
            mock.patch("huggingface_hub.try_to_load_from_cache", return_value=None),
            mock.patch("huggingface_hub.HfApi", Api),
            mock.patch.object(segmenter, "N_UPDATES", 40),  # instead of 2,000
            mock.patch.object(prepare, "SIZES", ((0, 3, 1000, 0.1),)),  # instead of 30
        ):
            yield


def write_repository(folder: Path, short_name: str) -> None:
    """Write a git repository with a treebank of a few short sentences."""
    folder.mkdir(parents=True)
    sentences = short(longest=9)  # dev and test repeat some of them, so that they have no new labels
    for part, chosen in (("train", sentences), ("dev", sentences[:4]), ("test", sentences[4:8])):
        write_treebank(chosen, folder / f"{short_name}-ud-{part}.conllu")
    user = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet"], ["add", "."], [*user, "commit", "--quiet", "-m", "A toy treebank"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
