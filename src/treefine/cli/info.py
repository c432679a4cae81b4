"""The info command: versions, devices and models for a bug report."""

from __future__ import annotations

import hashlib
import json
import locale
import os
import platform
import re
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from treefine.cli.treebanks import JsonOption
from treefine.cores import quota_cores, usable_cores, use_threads
from treefine.drawing.characters import visible
from treefine.errors import TreefineError
from treefine.model.bundled import bundled_models
from treefine.model.weight_files import LAYOUT
from treefine.version import __version__

REQUIRED = ("numpy", "tokenizers", "safetensors", "huggingface-hub", "typer", "rich", "jinja2", "filelock", "jaxtyping")
EXTRAS = {  # the extra of treefine that installs each optional package
    "tensorboard": "train",
    "matplotlib": "plots",
    "fastapi": "serve",
    "prometheus-client": "serve",
    "python-multipart": "serve",
    "uvicorn": "serve",
    "spacy": "spacy",
    "pyarrow": "tables",
    "ray": "ray",
    "zstandard": "zstd",
}
_VARIABLES = re.compile(
    r"(TREEFINE|OMP|GOMP|MKL|KMP|OPENBLAS|TRITON|PYTORCH)_\w+|RAYON_NUM_THREADS|CUDA_VISIBLE_DEVICES"
)
_SECRET = re.compile("TOKEN|KEY|SECRET|PASS", re.IGNORECASE)


def info_command(as_json: JsonOption = False) -> None:
    """Print versions, devices and models for a bug report.

    The report contains no secrets, and no paths except the location of treefine.
    """
    found = gather()
    typer.echo(json.dumps(found, ensure_ascii=False, indent=1) if as_json else "\n".join(_lines(found)))


def version_line() -> str:
    """Return the versions of treefine, Python and torch, without importing torch."""
    torch = version_of("torch")
    return f"treefine {__version__} (Python {platform.python_version()}, torch {torch or 'not installed'})"


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def gather() -> dict[str, Any]:
    """Return everything that the command prints, including the reason if torch cannot be imported."""
    torch, devices = _torch()
    optional = {
        name: {"version": version_of(name), "install": f"pip install 'treefine[{extra}]'"}
        for name, extra in EXTRAS.items()
    }
    return {
        "treefine": __version__,
        "location": _without_home(str(Path(__file__).parents[1])),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "encoding": locale.getpreferredencoding(False),
        "cpu": _cpu(),
        "torch": torch,
        "devices": devices,
        "packages": {name: version_of(name) for name in REQUIRED},
        "optional": optional,
        "models": _models(),
        "environment": _environment(os.environ),
    }


def _without_home(path: str) -> str:
    home = str(Path.home()).rstrip("/\\")  # may be / in a container
    return "~" + path.removeprefix(home) if home and f"{path}{os.sep}".startswith(home + os.sep) else path


def _cpu() -> dict[str, Any]:
    quota = quota_cores()
    return {"model": _cpu_model(), "cores": os.cpu_count(), "usable_cores": usable_cores(), "quota_cores": quota}


def _cpu_model() -> str:
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _torch() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the properties of torch and of each device that it can use."""
    found: dict[str, Any] = {"version": version_of("torch")}
    try:
        import torch

        found["version"] = str(torch.__version__)
        found["cuda"] = torch.version.cuda
        use_threads(None)  # as other commands do
        found["threads"] = torch.get_num_threads()
        return found, _devices()
    except Exception as error:  # a missing or incompatible library fails in many ways
        found["error"] = _error(error)
        return found, []


def _error(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}".split("\n")[0]
    home = str(Path.home()).rstrip("/\\")
    return text.replace(home, "~") if home else text


def _devices() -> list[dict[str, Any]]:
    import torch

    from treefine import fast
    from treefine.model.folder import load_model
    from treefine.parsing.plan import resolved_precision

    models = {}
    for name, folder in bundled_models().items():
        try:
            models[name] = load_model(folder)
        except (TreefineError, OSError):  # a damaged model still has its line in the list of models
            continue
    devices = []
    names = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    for name in [*names, *(["mps"] if torch.backends.mps.is_available() else [])]:
        device = torch.device(name)
        found: dict[str, Any] = {"device": name}
        if device.type == "cpu":
            found["int8_instructions"] = fast.is_int8_quick()
        elif device.type == "cuda":
            known = torch.cuda.get_device_properties(device)
            found |= {"name": known.name, "memory_gib": round(known.total_memory / 2**30, 1)}
            found["compute_capability"] = f"{known.major}.{known.minor}"
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found["triton_kernels"] = fast.has_kernels(device)
            found["triton_problem"] = str(caught[0].message).split("\n")[0] if caught else None
            found["triton"] = version_of("triton")
        found["precision"] = {name: resolved_precision(None, model, device) for name, model in models.items()}
        devices.append(found)
    return devices


def _models() -> dict[str, dict[str, Any]]:
    found = {}
    for name, folder in bundled_models().items():
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        weights = folder / LAYOUT.weights
        checksum = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else None
        found[name] = {"bytes": size, "weights_sha256": checksum}
    return found


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change speed or results; paths and secrets are left out."""
    chosen = sorted(name for name in variables if _VARIABLES.fullmatch(name) and not _SECRET.search(name))
    return {name: "(a path)" if re.search(r"[/\\]", variables[name]) else variables[name] for name in chosen}


def _lines(found: Mapping[str, Any]) -> list[str]:
    """Return the report as text."""
    cpu, torch = found["cpu"], found["torch"]
    quota = f", limited to {cpu['quota_cores']} by cgroup" if cpu["quota_cores"] is not None else ""
    build = f"CUDA {torch['cuda']}" if torch.get("cuda") else "no CUDA"
    lines = [
        f"treefine   {found['treefine']}, in {found['location']}",
        f"Python     {found['python']}, encoding {found['encoding']}",
        f"platform   {found['platform']}",
        f"CPU        {cpu['model']}, {cpu['usable_cores']} of {cpu['cores']} cores usable{quota}",
    ]
    if "error" in torch:
        lines.append(f"torch      {torch['version'] or 'not installed'}; cannot be imported: {torch['error']}")
    else:
        lines.append(
            f"torch      {torch['version']} ({build}), {torch['threads']} thread{'s' * (torch['threads'] != 1)}"
        )
    lines += ["devices"] * bool(found["devices"])
    for each in found["devices"]:
        lines.append(f"  {each['device']:<18} {', '.join(_device_notes(each))}")
    lines.append("packages")
    lines += [f"  {name:<18} {version or 'not installed'}" for name, version in found["packages"].items()]
    lines.append("optional packages")
    for name, each in found["optional"].items():
        lines.append(f"  {name:<18} {each['version'] or 'not installed; ' + each['install']}")
    lines.append("bundled models" if found["models"] else "bundled models: none")
    for name, each in found["models"].items():
        checksum = f"sha256 {each['weights_sha256'][:12]}" if each["weights_sha256"] else "no weights"
        lines.append(f"  {name:<18} {each['bytes'] / 1e6:.1f} MB, {checksum}")
    lines.append("environment" if found["environment"] else "environment: nothing set")
    lines += [f"  {name}={visible(value)}" for name, value in found["environment"].items()]
    return lines


def _device_notes(each: Mapping[str, Any]) -> list[str]:
    notes = []
    if "int8_instructions" in each:
        notes.append("int8 instructions" if each["int8_instructions"] else "no int8 instructions")
    if "name" in each:
        notes += [each["name"], f"{each['memory_gib']} GiB", f"compute capability {each['compute_capability']}"]
        kernels = f"Triton {each['triton']}" if each["triton_kernels"] else "no Triton kernels"
        notes.append(f"{kernels} ({each['triton_problem']})" if each["triton_problem"] else kernels)
    return notes + [f"{name} runs in {precision}" for name, precision in each["precision"].items()]
