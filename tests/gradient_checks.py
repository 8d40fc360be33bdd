"""Every check of gradients that a test can run in the ranks."""

import importlib
import inspect
import pkgutil

from fixtures.gradients import checks
from fixtures.gradients.replay import Check

_NAMES = [f"{checks.__name__}.{module.name}" for module in pkgutil.iter_modules(checks.__path__)]
# The functions whose first parameter is the context of a rank.
CHECKS: list[Check] = [
    function
    for module in map(importlib.import_module, _NAMES)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    if next(iter(inspect.signature(function).parameters), None) == "ctx"
]
