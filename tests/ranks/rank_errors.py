"""Code inside a rank: what a function raises, told instead of raised, so that the ranks live on for the next test.

For functions that raise in every rank of the world; a rank that waits for one that has raised would wait on.
"""

import importlib
from typing import Any

from fixtures.launch.protocol import REQUESTS
from fixtures.ranks.context import RankContext


# Any: JSON.
def raised(ctx: RankContext, *, function: str, arguments: dict[str, Any]) -> str:
    """Call ``module:function`` as a rank does. Returns ``NAME: MESSAGE`` of what it raises; empty if it does not."""
    module, _, name = function.partition(":")
    called, request = getattr(importlib.import_module(module), name), REQUESTS.get(function)
    try:
        called(ctx, **arguments) if request is None else called(ctx, request(**arguments))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
