"""Every check of gradients that a test can run in the ranks."""

import importlib
import inspect
import pkgutil

from fixtures.gradients import in_rank

_MODULES = [module.name for module in pkgutil.iter_modules(in_rank.__path__)]


def _is_check(function: object, module: str) -> bool:
    """True for a function of this module that takes the context of a rank, and arguments by name."""
    if not inspect.isfunction(function) or function.__module__ != module or function.__name__.startswith("_"):
        return False
    first, *others = inspect.signature(function).parameters.values()
    return first.name == "ctx" and all(other.kind is other.KEYWORD_ONLY for other in others)


# Names, as tests and commands give them.
CHECKS = [
    f"{name}:{function}"
    for name in _MODULES
    for function, value in vars(importlib.import_module(f"{in_rank.__name__}.{name}")).items()
    if _is_check(value, f"{in_rank.__name__}.{name}")
]
