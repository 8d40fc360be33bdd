"""A plugin that makes plotly a package that is not installed."""

import sys

sys.modules["plotly"] = None  # type: ignore[assignment]  # Python's own word for it
