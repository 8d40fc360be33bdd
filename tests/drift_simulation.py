"""The numbers on drift in docs/baselines.md: how often flat nights are called changed, and what is found.

python -m tests.drift_simulation 60 35,step30,10,30     cases, then nights,what,tests,first night after a step; what is
flat, flat_out (5 % of nights slower by about 10 %), ar3 (correlation 0.3 from night to night), step30 or slope30 (3 %)
"""

import math
import sys

import numpy as np

from fixtures.judge.drift import Change, Series, changes


def case(seed: int, nights: int, what: str, tests: int, at: int) -> list[list[Change]]:
    """About 1 % of noise a night, half of its variance common to all tests; what is planted is in the first."""
    random = np.random.default_rng([seed, nights, 7])
    common, series = random.normal(0, 0.007, nights), []
    for test in range(tests):
        x = common + random.normal(0, 0.007, nights) + random.normal(0, 0.005 / math.sqrt(3), nights)
        if what == "flat_out":
            x += (random.random(nights) < 0.05) * abs(random.normal(0, 0.1, nights))
        if what.startswith("ar"):
            correlation = int(what[2:]) / 10
            x[0] = random.normal(0, 0.01)
            for night, fresh in enumerate(random.normal(0, 0.01 * math.sqrt(1 - correlation**2), nights - 1), start=1):
                x[night] = correlation * x[night - 1] + fresh
        if what.startswith("step") and test == 0:
            x[at:] += int(what[4:]) / 1000
        if what.startswith("slope") and test == 0:
            x += np.linspace(0, int(what[5:]) / 1000, nights)
        series.append(Series(nights=tuple(range(nights)), logs=tuple(x)))
    return changes(series, alpha=0.01)


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        nights, what, tests, at = argument.split(",")
        results = [case(seed, int(nights), what, int(tests), int(at)) for seed in range(int(sys.argv[1]))]
        first, other = sum(bool(one[0]) for one in results), sum(any(one[1:]) for one in results)
        anything = sum(any(one) for one in results)
        print(f"{argument}: of {len(results)} anything {anything}, in the first test {first}, in another {other}")
