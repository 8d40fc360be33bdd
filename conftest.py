"""The rooms' pytest plugins, in layer order."""

pytest_plugins = (
    "fixtures.judge.options",
    "fixtures.judge.settings",
    "fixtures.judge.cells",
    "fixtures.judge.launching",
    "fixtures.judge.measure",
    "fixtures.judge.bandwidth",
    "fixtures.judge.untimed",
    "fixtures.judge.equivalence",
    "fixtures.judge.training",
    "fixtures.judge.keeping",
    "fixtures.judge.run_record",
    "fixtures.judge.properties",
    "fixtures.judge.whole_run",
    "fixtures.report.progress",
    "fixtures.report.table",
    "fixtures.report.training",
    "fixtures.report.gradients",
)
