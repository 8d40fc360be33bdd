"""Commands run in forks of one warm process, without the start of Python and its imports.

``perf`` and ``command`` are ``pytest_perf`` and ``run`` of command_line.py with fake ranks (fake_ranks.py), and
``live_perf`` is ``pytest_perf`` in 5 s of CPU less. A run has a process of its own, so nothing that it changes reaches
another. ``python -m tests.forked`` is the warm process: it takes a JSON object a line and answers each with an exit
code.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from tests import warm_ranks
from tests.command_line import ENVIRONMENT, ROOT, Outcome

_DEADLINE_S = 300  # other runs on this machine may have to end first


def perf(storage: Path, *arguments: str, variables: dict[str, str] | None = None) -> Outcome:
    """``pytest`` with these arguments, environment variables and fake ranks; its baselines are in ``storage``."""
    return _fork("pytest", "-p", "no:cacheprovider", f"--benchmark-storage={storage}", *arguments, variables=variables)


def live_perf(storage: Path, *arguments: str, variables: dict[str, str] | None = None) -> Outcome:
    """The same with live ranks."""
    warm_ranks.options()  # starts the process that forks them
    given = ("-p", "no:cacheprovider", f"--benchmark-storage={storage}", *arguments)
    return _fork("pytest", *given, variables={**os.environ, **ENVIRONMENT, **(variables or {})}, live=True)


def command(
    *arguments: str | Path,
    variables: dict[str, str] | None = None,
    stdin: str | Path = os.devnull,
    folder: Path = ROOT,
) -> Outcome:
    """``python -m fixtures`` with these arguments; ``stdin`` is a file or a terminal."""
    return _fork("fixtures", *map(str, arguments), variables=variables, stdin=stdin, folder=folder)


def pytest(*arguments: str, variables: dict[str, str] | None = None, folder: Path = ROOT) -> Outcome:
    """``pytest`` with these arguments alone."""
    return _fork("pytest", *arguments, variables=variables, folder=folder)


def _fork(
    module: str,
    *arguments: str,
    variables: dict[str, str] | None,
    stdin: str | Path = os.devnull,
    folder: Path = ROOT,
    live: bool = False,
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="forked-") as name:
        files = {stream: str(Path(name) / stream) for stream in ("stdout", "stderr")}
        variables = ENVIRONMENT | (variables or {})
        asked = {"module": module, "arguments": arguments, "variables": variables, "live": live, **files}
        code = _ask({**asked, "stdin": str(stdin), "folder": str(folder)})
        output, errors = (Path(file).read_text(errors="replace") for file in files.values())
    return Outcome(exit_code=code, output=output, errors=errors)


def _ask(asked: dict[str, Any]) -> int:
    process = _warm()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], _DEADLINE_S)
    line = process.stdout.readline() if ready else b""
    if not line:
        process.kill()
        _warm.cache_clear()
        raise AssertionError(f"no answer within {_DEADLINE_S} s: {asked}")
    return int(line)


@cache
def _warm() -> subprocess.Popen[bytes]:
    """Started at its first request; ends when its stdin does."""
    variables = {**os.environ, **ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"}  # a fork has one thread
    return warm_ranks.warm_process("tests.forked", variables=variables)


# In the warm process


def main() -> None:
    """Import the modules that all runs need, then fork for each request."""
    gc.disable()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    import pytest

    with tempfile.TemporaryDirectory() as storage, contextlib.redirect_stdout(sys.stderr):
        warm = ["perf", "--collect-only", "-p", "no:terminal", "-p", "no:cacheprovider"]
        warm.append(f"--benchmark-storage={storage}")
        if code := pytest.main(warm):
            sys.exit(f"collecting in the warm process ended with {code}")
    for module in ("fixtures.__main__", "scipy.optimize", "torch", "tests.fake_ranks", "tests.gradient_checks"):
        importlib.import_module(module)
    _find_plugins_once()
    gc.freeze()
    gc.enable()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            answers.close()
            _run(json.loads(line))
        _, status = os.waitpid(pid, 0)
        answers.write(b"%d\n" % os.waitstatus_to_exitcode(status))


def _find_plugins_once() -> None:
    """Pytest looks for each plugin in the metadata of all installed packages, which is a third of a run's time."""
    import pytest

    manager: Any = pytest.PytestPluginManager  # Any: functions of it and of Config are replaced
    config: Any = pytest.Config
    load, find = manager.load_setuptools_entrypoints, metadata.distributions
    with_plugins = [one for one in find() if any(entry.group == "pytest11" for entry in one.entry_points)]

    def loaded(self: pytest.PytestPluginManager, group: str, name: str | None = None) -> int:
        if (name or "").startswith(("fixtures.", "tests.")):
            return 0
        setattr(metadata, "distributions", lambda: with_plugins)  # noqa: B010
        try:
            return int(load(self, group, name))
        finally:
            setattr(metadata, "distributions", find)  # noqa: B010

    manager.load_setuptools_entrypoints = loaded
    # Installed plugins are imported already, as they are.
    config._mark_plugins_for_rewrite = lambda self, hook, *_: setattr(self.pluginmanager, "rewrite_hook", hook)


def _run(asked: dict[str, Any]) -> NoReturn:
    """In a fork: the command, as if Python had just been started for it."""
    for number, stream in ((1, "stdout"), (2, "stderr")):
        descriptor = os.open(asked[stream], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.dup2(os.open(asked["stdin"], os.O_RDONLY | os.O_NOCTTY), 0)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)
    os.environ.update(asked["variables"])
    os.chdir(asked["folder"])
    if "PYTHONPATH" in asked["variables"]:
        sys.path[1:1] = asked["variables"]["PYTHONPATH"].split(os.pathsep)
    sys.modules["__main__"] = ModuleType("__main__")  # a rank that is spawned imports that of its parent
    code = 1
    try:
        code = _called(asked["module"], asked["arguments"], live=asked["live"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


# Any: options of subprocess.run.
def _probed(warm: set[str], command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """What the suite asks this interpreter is asked of a fork with the modules of the warm process, 1.6 s faster."""
    if command[:2] != [sys.executable, "-c"]:
        return subprocess.run(command, **options)
    with tempfile.TemporaryDirectory(prefix="forked-") as name:
        files = {stream: Path(name) / stream for stream in ("stdout", "stderr")}
        pid = os.fork()
        if pid == 0:
            for module in sys.modules.keys() - warm:
                del sys.modules[module]
            asked = {"arguments": command[2:], "variables": {}, "live": False, "stdin": os.devnull, **files}
            _run({"module": "-c", "folder": Path.cwd(), **asked})
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return subprocess.CompletedProcess(command, code, *(file.read_bytes() for file in files.values()))


def _called(module: str, arguments: list[str], *, live: bool) -> int:
    import pytest

    from fixtures import __main__
    from fixtures.launch import other_side

    if module == "-c":
        sys.argv = ["-c", *arguments[1:]]
        exec(arguments[0], {"__name__": "__main__"})
        return 0
    run = partial(_probed, {*sys.modules})
    vars(other_side)["subprocess"] = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    if module == "fixtures":
        sys.argv = [str(ROOT / "fixtures/__main__.py"), *arguments]
        return __main__.main(arguments)
    sys.argv = [str(Path(pytest.__file__).with_name("__main__.py")), *arguments]
    from tests import fake_ranks

    (warm_ranks if live else fake_ranks).pytest_configure()
    return int(pytest.main(arguments))


if __name__ == "__main__":
    main()
