"""The exhaustive matrix of --tune, to compare its search with: every bucket size with every setting of DDP and NCCL.

    pytest perf --tune --benchmark-json tune1.json        # as often as wanted
    FOUND=tune1.json pytest perf --tune -p studies.exhaustive_tuning --launches 2 --benchmark-json all.json
    python -m studies.exhaustive_tuning all.json tune1.json

With the plugin, the search launches all of them in --launches full passes, whatever --tune-minutes says, and with them
what the searches in ``FOUND`` (paths, joined by ``:``) have found. The command prints by how much each of these is
slower than the best of the matrix, and how long both took.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from fixtures.extras.tune import tuning
from fixtures.extras.tune.candidates import DEFAULT, Candidate
from fixtures.extras.tune.halving import Decision, Search
from fixtures.matrix.config_names import FLAGS, VARIABLES, Words, parse
from fixtures.matrix.configs import find_config

# The best settings of one machine may be combined, so each flag goes with each variable.
_FLAGS = ((), *((FLAGS[word],) for word in ("no_static_graph", "batched_copy")))
_VARIABLES = ((), *((variable,) for variable in VARIABLES.values()))

Stage = Callable[[Candidate], Iterable[Candidate]]


def matrix(sizes: Iterable[Candidate], found: Iterable[str], *, over_nccl: bool) -> list[Candidate]:
    """The bucket sizes of the first stage and those between them, with each setting; and the names that were found."""
    first = [words for candidate in sizes if (words := parse(candidate.config.name)) and words.hook is None]
    sizes_mb = sorted({words.bucket_cap_mb for words in first})
    between = [round((low * high) ** 0.5) for low, high in pairwise(sizes_mb)]
    variables = _VARIABLES if over_nccl else _VARIABLES[:1]
    cells = product(sorted({*sizes_mb, *between}), _FLAGS, variables)
    names = [Words(bucket_cap_mb=size, flags=flags, variables=variable).to_name() for size, flags, variable in cells]
    return [Candidate(config=find_config(name)) for name in dict.fromkeys((*names, *found))]


def exhaustive(search: Search[Candidate], stages: Sequence[Stage], **arguments: Any) -> Decision[Candidate]:
    """Take the place of ``find_best``. Any: its arguments."""
    first, *_, variables, _ = stages
    sizes = list(first(DEFAULT))
    settings = list(variables(sizes[0]))  # starts their ranks
    files = [Path(name) for name in os.environ.get("FOUND", "").split(":") if name]
    pool = matrix(sizes, [search_of(file)["config"] for file in files], over_nccl=bool(settings))
    search.rules = replace(search.rules, most_passes=search.rules.least_passes)
    search._spent = lambda: 0.0
    decision = search.decide(pool, references=arguments["references"]([sizes[0]]))
    arguments["holds"](decision.best)
    return decision


def pytest_configure() -> None:
    """For the rest of this process."""
    setattr(tuning, "find_best", exhaustive)  # noqa: B010


def search_of(file: Path) -> dict[str, Any]:
    """The only search of a record."""
    (found,) = json.loads(file.read_text())["tuning"]
    return dict(found)


# Any: JSON.
def compared(exhaustive: dict[str, Any], found: dict[str, Any]) -> str:
    """What a search has found against the best of the matrix, both by the launches of the matrix."""
    gains = {one["config"]: one["gain_percent"] for one in exhaustive["tried"] if "gain_percent" in one}
    best = max((name for name in gains if "no_comm" not in name), key=lambda name: gains[name])
    own, promised = gains[found["config"]], found.get("over_default", {"percent": 0.0})["percent"]
    behind = 100 * ((100 + gains[best]) / (100 + own) - 1)
    return (
        f"{found['config']}: {behind:.2f} % slower than {best}, the best of {len(gains)}; "
        f"gain {promised:+.2f} % promised, {own:+.2f} % in the matrix; "
        f"{found['took_s']:.0f} s, {found['took_s'] / exhaustive['took_s']:.2f} of the matrix"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("all", type=Path)
    parser.add_argument("found", type=Path, nargs="+")
    asked = parser.parse_args()
    for file in asked.found:
        print(compared(search_of(asked.all), search_of(file)))
