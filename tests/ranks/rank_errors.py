"""Code inside a rank: a function's exception as its result, so that the ranks live on for the next test.

For functions that raise in every rank of the world; a rank that waits for one that has raised would wait on.
"""

import importlib
from typing import Any

from fixtures.launch.protocol import REQUESTS, to_json
from fixtures.ranks.context import RankContext


# Any: JSON.
def tried(ctx: RankContext, *, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call ``module:function`` as ranks do. Returns its ``value``, or ``NAME: MESSAGE`` of an ``error``; else None."""
    module, _, name = function.partition(":")
    called, request = getattr(importlib.import_module(module), name), REQUESTS.get(function)
    try:
        value = called(ctx, **arguments) if request is None else called(ctx, request(**arguments))
    except Exception as error:
        return {"value": None, "error": f"{type(error).__name__}: {error}"}
    return {"value": to_json(value), "error": None}
