"""The info command, which prints versions, devices and models for a bug report, and the models command."""

from __future__ import annotations

import locale
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from treefine.cli.options import JSON
from treefine.cli.terminal import print_json
from treefine.config import LAYOUT
from treefine.cores import quota_cores, usable_cores, use_threads
from treefine.errors import visible
from treefine.evaluation.tables import Table
from treefine.model.bundled import about, bundled_models
from treefine.version import __version__

REQUIRED = "numpy tokenizers safetensors huggingface-hub typer rich jinja2 filelock jaxtyping".split()
EXTRAS = "tensorboard matplotlib fastapi prometheus-client python-multipart uvicorn spacy pyarrow ray zstandard".split()
_VARIABLES = re.compile(
    r"(TREEFINE|OMP|GOMP|MKL|KMP|OPENBLAS|TRITON|PYTORCH)_\w+|RAYON_NUM_THREADS|CUDA_VISIBLE_DEVICES"
)
_SECRET = re.compile("TOKEN|KEY|SECRET|PASS", re.IGNORECASE)


def info_command(as_json: bool = JSON) -> None:
    """Print versions, devices and models for a bug report.

    The report contains no secrets, and no paths except the location of treefine.
    """
    values = gather()
    if as_json:
        print_json(values)
    else:
        typer.echo("\n".join(_lines(values)))


def version_line() -> str:
    """Return the versions of treefine, Python and torch, without importing torch."""
    return f"treefine {__version__} (Python {platform.python_version()}, torch {version_of('torch')})"


def version_of(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def gather() -> dict[str, Any]:
    """Return everything that the command prints, including the reason if torch cannot be imported."""
    return {
        "treefine": __version__,
        "location": _without_home(str(Path(__file__).parents[1])),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "encoding": locale.getpreferredencoding(False),
        "cpu": {"model": _cpu_model(), "usable_cores": usable_cores(), "quota_cores": quota_cores()},
        **_torch(),
        "packages": {name: version_of(name) for name in REQUIRED},
        "optional": {name: version_of(name) for name in EXTRAS},
        "models": {name: _model(folder) for name, folder in bundled_models().items()},
        "environment": {  # variables that change speed or results, without paths and secrets
            name: "(a path)" if re.search(r"[/\\]", value) else value
            for name, value in sorted(os.environ.items())
            if _VARIABLES.fullmatch(name) and not _SECRET.search(name)
        },
    }


def _without_home(text: str) -> str:
    home = str(Path.home()).rstrip("/\\")  # may be / in a container
    return text.replace(home, "~") if home else text


def _cpu_model() -> str:
    with suppress(OSError):
        if name := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return name[1]
    return platform.processor() or platform.machine()


def _torch() -> dict[str, Any]:
    try:
        import torch

        use_threads(None)  # as other commands do
        values = {"version": str(torch.__version__), "cuda": torch.version.cuda, "threads": torch.get_num_threads()}
        return {"torch": values, "devices": _devices()}
    except Exception as error:  # a missing or incompatible library fails in many ways
        reason = _without_home(f"{type(error).__name__}: {error}".split("\n")[0])
        return {"torch": {"version": version_of("torch"), "error": f"cannot be imported: {reason}"}, "devices": {}}


def _devices() -> dict[str, Any]:
    import torch

    from treefine import fast

    devices: dict[str, Any] = {"cpu": {"int8_instructions": fast.is_int8_quick()}}
    for number in range(torch.cuda.device_count()):
        device = torch.device(f"cuda:{number}")
        known = torch.cuda.get_device_properties(device)
        devices[str(device)] = {
            "name": known.name,
            "memory_gib": round(known.total_memory / 2**30, 1),
            "compute_capability": f"{known.major}.{known.minor}",
            "triton_kernels": fast.has_kernels(device),  # warns with the reason if there are none
            "triton": version_of("triton"),
        }
    return devices | ({"mps": {}} if torch.backends.mps.is_available() else {})


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _model(folder: Path) -> dict[str, Any]:
    weights = folder / LAYOUT.weights  # missing from a damaged installation, which this report should show
    return {
        "bytes": _size(folder),
        "weights_sha256": sha256(weights.read_bytes()).hexdigest() if weights.is_file() else None,
    }


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the report as text: a line per value, and indented lines for nested values."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}"
            yield from _lines(value, indent + "  ")
        else:
            shown = "none" if value is None or value == {} else visible(str(value))
            yield f"{indent}{name:<{20 - len(indent)}} {shown}"


def models_command(as_json: bool = JSON) -> None:
    """List the bundled models and their scores on the test sets of their treebanks.

    A model of several languages has a second table with the scores in each of them.
    """
    models, header = [], ("name", "language", "treebank", "licence", "encoder", "size", "scores")
    rows, tables = [], []
    for name, folder in bundled_models().items():
        values = asdict(about(folder))
        scores, languages = values.pop("scores"), values.pop("languages")
        model = {"name": name, **values, "bytes": _size(folder), "scores": scores}
        models.append(model | ({"languages": languages} if languages else {}))
        listed = ", ".join(f"{measure} {score:.2f}" for measure, score in scores.items())
        rows.append((*(str(model[column]) for column in header[:5]), f"{model['bytes'] / 1e6:.1f} MB", listed))
        if languages:
            tables.append(f"{name}:\n{_language_table(languages)}")
    if as_json:
        print_json(models)
    else:
        shown = [Table(header, tuple(rows), n_names=len(header)).to_text(), *tables]
        typer.echo("\n\n".join(shown) if models else "This installation has no bundled models.")


def _language_table(languages: Mapping[str, Any]) -> str:
    """Return a table with one row per treebank.

    A row starts with what the option --lang takes: the language, or the treebank if the language stands for another.
    """
    measures, rows = ("LAS from text", "LAS from words"), []
    for treebank, values in languages.items():
        scores = [f"{values['scores'][name]:.2f}" if name in values["scores"] else "" for name in measures]
        code = values["language"] if values["is_main"] else treebank
        rows.append((code, values["name"], values["treebank"], *scores, values["note"]))
    header = ("code", "language", "treebank", *measures, "note")
    return Table(header, tuple(rows), n_names=len(header)).to_text()
