"""Read pretrained encoders from Hugging Face folders. Only this module knows their settings and weight names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from treefine.config import LAYOUT, TransformerSettings, read_json, read_settings
from treefine.errors import ModelError
from treefine.model.folder import PICKLED_WEIGHTS, check_weights, read_pickled_weights, read_weights

Family = Literal["bert", "roberta", "electra", "mpnet"]
_FAMILIES: dict[str, Family] = {
    "bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "electra": "electra",
    "mpnet": "mpnet",
}
_ATTENTION = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_norm",
}
_MPNET_ATTENTION = {
    "attention.attn.q": "attention.query",
    "attention.attn.k": "attention.key",
    "attention.attn.v": "attention.value",
    "attention.attn.o": "attention.output",
    "attention.LayerNorm": "attention_norm",
}
_LAYER = {"intermediate.dense": "inner", "output.dense": "outer", "output.LayerNorm": "outer_norm"}
_OUTSIDE = {
    "embeddings.word_embeddings": "pieces",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "norm",
    "embeddings_project": "widen",
    "encoder.relative_attention_bias": "buckets",
}
_NOT_NEEDED = re.compile(r"pooler\.|embeddings\.position_ids$")  # weights of the base model that a parser does not use
_OLD_NAMES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}


def load_encoder(folder: Path) -> tuple[TransformerSettings, dict[str, Tensor]]:
    """Return the settings of a pretrained encoder, and its weights in float32 under our names."""
    config, path = read_json(folder / LAYOUT.config), str(folder / LAYOUT.config)
    kind, pad_id = config.get("model_type"), config.get("pad_token_id", 1)
    family = _FAMILIES.get(str(kind))
    if family is None:
        hint = f"Choose an encoder of type {', '.join(_FAMILIES)}."
        raise ModelError(f"Encoders with model_type {kind!r} are not supported.", hint=hint, path=path)
    weights = translate(_read_weights(folder), family, path=str(folder))
    if family == "roberta" and type(pad_id) is not int:
        raise ModelError(f"pad_token_id must be a whole number, not {pad_id!r}.", path=path)
    # RoBERTa and MPNet count positions from pad_id + 1 (MPNet's pad_id is 1). Every piece has token type 0.
    offset = pad_id + 1 if family == "roberta" else 2 if family == "mpnet" else 0
    weights["positions.weight"] = weights["positions.weight"][offset:]
    if "token_types.weight" in weights:
        weights["positions.weight"] = weights["positions.weight"] + weights.pop("token_types.weight")[0]
    return _settings(config, family, weights, path=path), weights


def translate(weights: Mapping[str, Tensor], family: Family, *, path: str = "") -> dict[str, Tensor]:
    """Return the weights of the base model under our names, without the heads for other tasks."""
    prefix = f"{family}."
    if any(name.startswith(prefix) for name in weights):
        weights = {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}
    found: dict[str, Tensor] = {}
    unknown = []
    for name, weight in weights.items():
        for old, new in _OLD_NAMES.items():
            name = name.replace(old, new)
        ours = _our_name(name, family)
        if ours is not None:
            found[ours] = weight.float()
        elif name.startswith(("embeddings", "encoder.")) and not _NOT_NEEDED.search(name):
            unknown.append(name)
    if unknown:
        hint = "Its layers do not match the model_type in its config.json."
        raise ModelError(f"The encoder has unknown weights: {', '.join(sorted(unknown)[:5])}.", hint=hint, path=path)
    for needed in ("pieces", "positions"):
        if f"{needed}.weight" not in found:
            raise ModelError(f"The encoder has no weights for its {needed}.", path=path)
    return found


def _our_name(name: str, family: Family) -> str | None:
    body, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias"):
        return None
    layer = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)", body)
    if layer is None:
        return f"{_OUTSIDE[body]}.{kind}" if body in _OUTSIDE else None
    names = _LAYER | (_MPNET_ATTENTION if family == "mpnet" else _ATTENTION)
    return f"layers.{layer[1]}.{names[layer[2]]}.{kind}" if layer[2] in names else None


def _settings(config: dict[str, Any], family: Family, weights: dict[str, Tensor], *, path: str) -> TransformerSettings:
    position_kind = config.get("position_embedding_type", "absolute")
    activations = {"gelu": "gelu", "gelu_new": "gelu_new", "gelu_pytorch_tanh": "gelu_new", "relu": "relu"}
    activation = activations.get(str(config.get("hidden_act", "gelu")))
    if position_kind != "absolute" or activation is None:
        wrong = f"position_embedding_type {position_kind!r}" if activation else f"hidden_act {config['hidden_act']!r}"
        raise ModelError(f"Encoders with {wrong} are not supported.", path=path)
    n_pieces, embedding_width = weights["pieces.weight"].shape
    try:
        values = {
            "family": family,
            "n_pieces": n_pieces,
            "n_positions": len(weights["positions.weight"]),
            "n_layers": config["num_hidden_layers"],
            "width": config["hidden_size"],
            "n_attention_heads": config["num_attention_heads"],
            "inner_width": config["intermediate_size"],
            "embedding_width": embedding_width,
            "activation": activation,
            "norm_eps": config.get("layer_norm_eps", 1e-12),
            "n_buckets": len(weights["buckets.weight"]) if "buckets.weight" in weights else 0,
            "dropout": config.get("hidden_dropout_prob", 0.1),
            "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        }
    except KeyError as error:
        raise ModelError(f"{error.args[0]} is missing.", path=path) from error
    return read_settings(TransformerSettings, values, path=path)


def _read_weights(folder: Path) -> dict[str, Tensor]:
    whole, pickled = folder / LAYOUT.weights, folder / PICKLED_WEIGHTS
    parts = [whole] if whole.exists() else sorted(folder.glob("model-*-of-*.safetensors"))
    if pickled.exists() and not parts:
        return read_pickled_weights(pickled)
    return {name: weight for part in parts or [whole] for name, weight in read_weights(part).items()}


def is_pretrained(name: str) -> bool:
    """Return whether a weight of our encoder is that of a pretrained one: not for ROOT, tags or relations."""
    return not (name == "root" or name.startswith("tags.") or ".relations." in name)


def fill(module: torch.nn.Module, weights: Mapping[str, Tensor], *, path: str) -> None:
    """Load the weights into the module. They may lack its parameters for ROOT, tags and relations."""
    own = {name for name in module.state_dict() if not is_pretrained(name)}
    check_weights(weights, module.state_dict(), may_lack=frozenset(own), path=path)
    module.load_state_dict(dict(weights), strict=False)
