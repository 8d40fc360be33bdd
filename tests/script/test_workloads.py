"""Scripts on the command line: their names, their secrets, wrong options; a config as a diff of the script."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.launch.processes import OnThisMachine
from fixtures.launch.protocol import TrainRequest
from fixtures.launch.script import LaunchLine
from fixtures.matrix.configs import find_config
from fixtures.session.command_line import CommandLine
from fixtures.session.own_code import script_workloads
from fixtures.session.script_tests import near_scripts

SOURCE = """\
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    if rank is not None:
        model = DDP(net, device_ids=[rank],
                    bucket_cap_mb=100, find_unused_parameters=True)
    train(model)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SOURCE)
    return file


def command_line(**given: Any) -> CommandLine:
    config = SimpleNamespace(getoption=lambda name, default=None: given.get(name, default))
    return CommandLine(config=config, gpus=(), starter=OnThisMachine())  # type: ignore[arg-type]


def lines(*texts: str, **given: Any) -> list[LaunchLine]:
    found = script_workloads(command_line(script=list(texts), **given))
    return [one.training for one in found.values() if isinstance(one.training, LaunchLine)]


def test_the_name_is_made_of_path_and_arguments(script: Path) -> None:
    first, second = lines(f"{script} --width 768", f"{script} --width 512")
    assert first.name.startswith("train_width_768_")
    assert first.name != second.name
    assert (first.shown, first.arguments) == ("train.py --width 768", ("--width", "768"))


@pytest.fixture
def checkouts(tmp_path: Path) -> list[Path]:
    """Two checkouts of a repository with the script ``jobs/train.py``, the second one a worktree."""
    found = [tmp_path / "first/repo", tmp_path / "second"]
    for top in found:
        (top / "jobs/deep").mkdir(parents=True)
        (top / "jobs/train.py").write_text(SOURCE)
    (found[0] / ".git").mkdir()
    (found[1] / ".git").write_text("gitdir: elsewhere")
    return found


def test_the_name_is_the_same_in_each_checkout_and_folder(
    checkouts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set[str]()
    for top in checkouts:
        for folder, given in (("", "jobs/train.py"), ("jobs", "train.py"), ("jobs/deep", "../train.py")):
            monkeypatch.chdir(top / folder)
            names |= {one.name for one in lines(f"{given} -n 5") + lines(f"{top / 'jobs/train.py'} -n 5")}
    assert len(names) == 1


def test_without_a_repository_the_name_has_the_file_name(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/train.py"
    other.parent.mkdir()
    other.write_text(SOURCE)
    assert lines(str(script))[0].name == lines(str(other))[0].name


def test_a_script_without_a_record_has_near_ones_with_other_arguments(checkouts: list[Path]) -> None:
    (line,) = lines(f"{checkouts[0] / 'jobs/train.py'} -n 5")
    stored = {"a": "jobs/train.py -n 4", "b": "other.py -n 5"}
    assert near_scripts([line], stored) == ["jobs/train.py -n 4"]
    assert near_scripts([line], {**stored, line.name: line.shown}) == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (b"width = 8\nmodel = (\n", r"train.py, line 2: SyntaxError: '\(' was never closed: model = \("),
        (b"width = 8\n  model = 9\n", r"train.py, line 2: IndentationError: unexpected indent: model = 9"),
        (b"name = '\xe9'\n", r"train.py, line 1: SyntaxError: .*utf-8"),
        (b"width = 8\0", r"train.py.*: source code string cannot contain null bytes"),
    ],
)
def test_a_script_that_python_does_not_compile_is_one_line(script: Path, source: bytes, says: str) -> None:
    script.write_bytes(source)
    with pytest.raises(pytest.UsageError, match=says) as error:
        lines(str(script))
    assert len(str(error.value).splitlines()) == 1


def test_a_script_may_have_any_encoding_and_a_wrong_escape(script: Path) -> None:
    script.write_bytes(b"# coding: latin-1\nname = '\xe9\\d'\n" + SOURCE.encode())
    (line,) = lines(str(script))
    assert any("bucket_cap_mb=10" in text for text in line.lines(find_config("bucket_10mb"), on_gpu=False))


def test_a_secret_is_in_no_name(script: Path) -> None:
    (line,) = lines(f"{script} --api-key s3cr3t --hub_token=s3cr3t --width 8")
    assert (line.arguments[1], line.shown) == ("s3cr3t", "train.py --api-key '***' '--hub_token=***' --width 8")
    assert "s3cr3t" not in line.name
    assert lines(f"{script} --api-key another --hub_token=s3cr3t --width 8")[0].name == line.name


def test_a_size_is_no_secret_and_is_in_the_name(script: Path) -> None:
    small, large = lines(f"{script} --num-tokens 512", f"{script} --num-tokens 2048")
    assert (small.shown, large.shown) == ("train.py --num-tokens 512", "train.py --num-tokens 2048")
    assert small.name != large.name


def test_two_scripts_that_differ_in_a_hidden_argument_alone_are_refused(script: Path) -> None:
    with pytest.raises(pytest.UsageError, match="is given twice, with two values of what is hidden"):
        lines(f"{script} --token a", f"{script} --token b")
    assert len(lines(f"{script} --token a", f"{script} --token a")) == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"script": ["no.py"]}, "--script 'no.py': there is no file no.py; give its path from /"),
        ({"script": ["trian.py"]}, "--script 'trian.py': there is no file trian.py, did you mean train.py?"),
        ({"script": [".."]}, "--script '..': .. is a folder; give the script in it"),
        ({"script": ["torchrun train.py"]}, "--script 'torchrun train.py': begin with the script"),
        ({"script": ["'"]}, '--script "\'": No closing quotation'),
        ({"script": ["-m pkg.train"]}, "--script '-m pkg.train': python -m is not supported; give the path"),
        ({"script": [""]}, "--script '': give the path of a script"),
        ({"script": ["my train.py"]}, "--script 'my train.py': there is no file my; quote a path with blanks again: "),
        ({"script": ["train.py"], "script_env": ["RANK=1"]}, "--script-env RANK: the suite sets it for each rank"),
        (
            {"script": ["train.py"], "script_env": ["PYTHONHASHSEED=0"]},
            "--script-env PYTHONHASHSEED: a process reads it when it starts; set it for pytest itself",
        ),
        ({"script_env": ["A=1"]}, "--script-env is for a script: add --script"),
        ({"script": ["train.py"], "workload": ["vit_l_32"]}, "--script with --workload"),
        ({"script": ["train.py"], "precision": ["tf32"]}, "--script with --precision: the script decides"),
        ({"script": ["train.py"], "nsys": "reports"}, "--script with --nsys: run nsys profile on the script itself"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    given: dict[str, Any], says: str, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.UsageError) as error:
        script_workloads(command_line(**given))
    assert str(error.value).startswith(says)


def test_a_config_is_a_diff_of_the_call(script: Path) -> None:
    (line,) = lines(str(script))
    assert line.lines(find_config("bf16"), on_gpu=True) == (
        "--- train.py",
        "+++ train.py",
        "@@ -4,4 +4,5 @@",
        "     if rank is not None:",
        "-        model = DDP(net, device_ids=[rank],",
        "-                    bucket_cap_mb=100, find_unused_parameters=True)",
        "+        model = DDP(net, device_ids=[rank], find_unused_parameters=True, bucket_cap_mb=2000, "
        "static_graph=True, gradient_as_bucket_view=True)",
        "+        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook",
        "+        model.register_comm_hook(None, bf16_compress_hook)",
        "     train(model)",
    )
    assert (
        "+        model = DDP(net, device_ids=[rank], bucket_cap_mb=100, find_unused_parameters=False)"
    ) in line.lines(find_config("no_find_unused"), on_gpu=True)


@pytest.mark.parametrize(
    "source",
    [
        "model = wrap(model)\n",
        "a = DistributedDataParallel(a)\nb = DistributedDataParallel(b)\n",
        "model = DistributedDataParallel(model, **arguments)\n",
        "model = DistributedDataParallel(model)\nmodel.register_comm_hook(None, hook)\n",
        "not python at all (\n",
        f"{'(' * 9999}{')' * 9999}\nmodel = DistributedDataParallel(model)\n",
        "model = DistributedDataParallel(model)\0\n",
    ],
)
def test_a_script_without_one_plain_call_gets_lines(source: str, script: Path) -> None:
    (line,) = lines(str(script))
    script.write_text(source)  # since the run began
    config = find_config("bucket_10mb")
    assert line.lines(config, on_gpu=True) == config.lines(on_gpu=True)
    assert line.lines(find_config("as_written"), on_gpu=True) == ()
    assert line.lines(find_config("as_written-connections_1"), on_gpu=True) == (
        "import os",
        'os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # before import torch',
    )


@pytest.mark.parametrize(
    "written",
    [
        f"# -*- coding: latin-1 -*-\n# é\n{SOURCE}".encode("latin-1"),
        f"# é\n{SOURCE}".encode("utf-8-sig"),
        f"# a page\f\n# \u2028\n{SOURCE}".encode(),
        f"# é\n{SOURCE}".replace("\n", "\r\n").encode(),
    ],
    ids=["Latin-1", "byte order mark", "form feed", "Windows"],
)
def test_a_source_is_read_as_python_reads_it(written: bytes, script: Path) -> None:
    script.write_bytes(written)
    (line,) = lines(str(script))
    diff = line.lines(find_config("bucket_10mb"), on_gpu=True)
    assert [one.strip() for one in diff if one.startswith("-  ")] == [
        "-        model = DDP(net, device_ids=[rank],",
        "-                    bucket_cap_mb=100, find_unused_parameters=True)",
    ]


def test_a_source_that_cannot_be_read_any_more_gets_lines(script: Path) -> None:
    (line,) = lines(str(script))
    config = find_config("bucket_10mb")
    script.write_bytes(b"# -*- coding: no-such-code -*-\n")
    assert line.lines(config, on_gpu=True) == config.lines(on_gpu=True)
    script.unlink()
    assert line.lines(config, on_gpu=True) == config.lines(on_gpu=True)
    line.seen(
        [
            SimpleNamespace(
                as_written=True,
                marked=False,
                varies=False,
                left_out=[],
                found={"hook": "any", "framework": "transformers"},
            )
        ]
    )
    assert line.lines(find_config("no_find_unused"), on_gpu=True) == (
        "TrainingArguments(..., ddp_find_unused_parameters=False)",
    )


def test_a_script_whose_own_hook_was_off_gets_the_diff(script: Path) -> None:
    script.write_text(
        SOURCE.replace("    train", "    if bf16:\n        model.register_comm_hook(None, hook)\n    train")
    )
    (line,) = lines(str(script))
    config = find_config("bucket_10mb")
    line.seen([SimpleNamespace(as_written=True, marked=False, varies=False, left_out=[], found={"hook": "none"})])
    assert "+++ train.py" in line.lines(config, on_gpu=True)
    line.seen(
        [
            SimpleNamespace(
                as_written=True, marked=False, varies=False, left_out=[], found={"hook": "bf16_compress_hook"}
            )
        ]
    )
    assert line.lines(config, on_gpu=True) == config.lines(on_gpu=True)


def test_a_script_whose_steps_use_different_parameters_gets_no_static_graph(script: Path) -> None:
    (line,) = lines(str(script))
    config = find_config("bucket_10mb")
    asked = TrainRequest(workload="x", config="bf16", world="2cpu", steps=1, warmup=1)
    assert "static_graph" in "".join(line.lines(config, on_gpu=True))
    assert not line.request(asked).varies
    found = {"as_written": True, "marked": False, "left_out": [], "bucket_bytes": [8], "found": {"hook": "none"}}
    line.seen([SimpleNamespace(**found, varies=False), SimpleNamespace(**found, varies=True)])
    assert "static_graph" not in "".join(line.lines(config, on_gpu=True))
    assert line.request(asked).varies
