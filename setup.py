"""The wheel: the package ``fixtures`` under the name ``ddp_perf``, as a pytest plugin. See docs/architecture.md.

``pip install -e .`` installs no code and no plugin: a clone is used as it stands, and conftest.py lists its plugins.
"""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

HERE = Path(__file__).parent
# ``fixtures.matrix``, ``fixtures/matrix``, ``from fixtures import`` and ``python -m fixtures``; not pytest's word.
NAME = re.compile(r"(?<![\w.])fixtures(?=\.\w|/\w| import\b)|(?<=-m )fixtures\b")
# Python, and what the page of --report is made of.
CARRIED = (".py", ".jinja", ".css", ".js")
# A search path's entry with this package alone, for the interpreter of --against (launch/other_side.py).
ALONE = '''"""The package in the folder above, without the packages next to it."""
from pathlib import Path
_HOME = Path(__file__).parents[2]
__path__ = [str(_HOME)]
exec(compile((_HOME / "__init__.py").read_text(), str(_HOME / "__init__.py"), "exec"))
'''


def renamed(text: str) -> str:
    """A source text under the wheel's names: ``ddp_perf``, and its tests where the clone has ``pytest perf``."""
    text = NAME.sub("ddp_perf", re.sub(r"python -m fixtures\b(?!\.)", "ddp-perf", text))
    text = re.sub(r"pytest perf/(test_\w+)\.py", r"pytest --pyargs ddp_perf.perf.\1", text)
    return text.replace("pytest perf", "pytest --pyargs ddp_perf.perf")


class Renamed(build_py):
    def run(self) -> None:
        package = Path(self.build_lib) / "ddp_perf"
        (plugins,) = re.findall(r"^pytest_plugins = \(.*?^\)$", (HERE / "conftest.py").read_text(), re.M | re.S)
        listed = f"from fixtures.extras import modules\n\n{plugins}\n"
        files = {"plugins.py": renamed(listed), "alone/ddp_perf/__init__.py": ALONE, "py.typed": ""}
        for folder, inside in (("fixtures", ""), ("perf", "perf/")):
            for file in sorted(file for file in (HERE / folder).rglob("*") if file.suffix in CARRIED):
                files[f"{inside}{file.relative_to(HERE / folder)}"] = renamed(file.read_text())
        files.setdefault("perf/__init__.py", "")
        for name, text in files.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text)


class Clone(editable_wheel):
    def run(self) -> None:
        self.distribution.packages = []
        setattr(self.distribution, "entry_points", {})  # noqa: B010  # a name that its types leave out
        if self.dist_info_dir:  # written before by the command that wheels share
            (Path(self.dist_info_dir) / "entry_points.txt").unlink(missing_ok=True)
        super().run()


# In the clone itself, pytest would find the plugin's name in the metadata and not its code.
(HERE / "build").mkdir(exist_ok=True)
setup(
    packages=["ddp_perf"],
    package_dir={"ddp_perf": "fixtures"},
    cmdclass={"build_py": Renamed, "editable_wheel": Clone},
    options={"egg_info": {"egg_base": "build"}},
    entry_points={
        "pytest11": ["ddp_perf = ddp_perf.plugin"],
        "console_scripts": ["ddp-perf = ddp_perf.__main__:main"],
    },
)
