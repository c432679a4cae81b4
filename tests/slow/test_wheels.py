"""The wheels that are published."""

import subprocess
import sys
import zipfile
from pathlib import Path

import treefine

ROOT = Path(__file__).parents[2]
EXTRA = ROOT / "packages" / "treefine-multi"
MOST_BYTES = 50_000_000  # of the wheel that everybody installs


def wheel_of(project, folder):
    """Build the wheel of a project and return the names of its files, and its size."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist(), wheel.stat().st_size


def test_the_wheel_has_the_english_model_and_no_other(tmp_path):
    names, size = wheel_of(ROOT, tmp_path)

    assert size < MOST_BYTES
    assert "treefine/models/en/model.safetensors" in names
    assert not [name for name in names if "multi/" in name]


def test_the_wheel_of_the_extra_package_has_the_whole_model_and_the_version_of_treefine(tmp_path):
    model = EXTRA / "src" / "treefine_multi" / "multi"

    names, _ = wheel_of(EXTRA, tmp_path)

    files = [path.relative_to(model.parent).as_posix() for path in model.rglob("*") if path.is_file()]
    assert {f"treefine_multi/{name}" for name in files} <= set(names)
    text = (EXTRA / "pyproject.toml").read_text()
    assert f'\nversion = "{treefine.__version__}"' in text
    assert f"treefine>={treefine.__version__}" in text
