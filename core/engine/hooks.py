"""Watching single modules of a model: an instance's class is exchanged for a subclass with another `__call__`.

Parameters, names and attributes stay as they are, and other instances of the class do not notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlx import nn


def hooked_class(plain: type[nn.Module], call: Callable[..., Any]) -> type[nn.Module]:
    """A subclass of `plain` that is called as `call(module, ...)`."""
    return type(plain.__name__, (plain,), {"__call__": call, "unhooked": plain})


def hook(module: nn.Module, call: Callable[..., Any]) -> None:
    """From now on this one module is called as `call(module, ...)`."""
    exchange_class(module, hooked_class(type(module), call))


def unhook(module: nn.Module) -> None:
    """Undo the last `hook`."""
    exchange_class(module, type(module).unhooked)


def exchange_class(module: nn.Module, cls: type[nn.Module]) -> None:
    """Make `module` an instance of `cls`."""
    object.__setattr__(module, "__class__", cls)
