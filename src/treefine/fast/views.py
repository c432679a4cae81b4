"""Modules that compute the same in another way, over the same weights."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

View = TypeVar("View", bound=nn.Module)


def view_of(module: nn.Module, kind: type[View], **parts: nn.Module | None) -> View:
    """Return a module of another class that shares the weights of this one, with some of its parts replaced."""
    view = copy.copy(module)
    view.__class__ = kind
    view._modules = {**module._modules, **parts}
    assert isinstance(view, kind)
    return view
