"""Configs: their names, values, and the lines to paste."""

from dataclasses import replace

import pytest
import torch

from fixtures.matrix.config import Config, Words, parse, step_lines
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.hooks import HOOKS
from fixtures.matrix.lookup import NotFound


def described() -> list[str]:
    """The names of the table that words describe as well."""
    words = {name: parse(name) for name in CONFIGS}
    return [name for name, said in words.items() if said is not None and (said.hook is None or said.hook in HOOKS)]


def test_the_words_of_a_name_describe_the_config_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    names = described()
    assert {"bucket_10mb", "graph-bf16-bucket_25mb", "ctas_8-bucket_10mb", "first_bucket_1mb-bucket_25mb"} < {*names}
    table = {name: CONFIGS[name] for name in names}
    monkeypatch.setattr("fixtures.matrix.configs.CONFIGS", {n: c for n, c in CONFIGS.items() if n not in table})
    assert {name: find_config(name) for name in names} == table


def test_a_name_is_read_as_it_is_written() -> None:
    read = {name: parse(name) for name in described()}
    assert {name: words and words.to_name() for name, words in read.items()} == {name: name for name in read}
    assert parse("bucket_40mb") == Words(bucket_cap_mb=40)
    assert parse("ddp_default") is None


def test_several_settings_go_together() -> None:
    config = find_config("bf16-ctas_8-no_static_graph-batched_copy-bucket_40mb")
    assert config.variables == (("NCCL_MAX_CTAS", "8"),)
    assert config.ddp_arguments() == {"bucket_cap_mb": 40, "gradient_as_bucket_view": True, "batched_grad_copy": True}


def test_a_first_bucket_of_its_own_size_comes_in_a_list() -> None:
    """DDP ignores its own setting where it is given a cap."""
    assert find_config("first_bucket_5mb-bucket_40mb").bucket_cap_mb_list == (5, 40)
    with pytest.raises(NotFound, match="bucket_25mb only"):
        find_config("last_bucket_5mb-bucket_40mb")


def test_a_hook_of_the_user_keeps_its_place_in_the_reference() -> None:
    config = find_config("tests.hooks_for_tests:lossless-bucket_40mb")
    assert (config.name, config.reference) == ("own_mean-bucket_40mb", "tests.hooks_for_tests:lossless-bucket_40mb")
    assert find_config(config.reference) == config
    graph = find_config("graph-tests.hooks_for_tests:lossless-bucket_40mb")
    assert graph.reference == "graph-tests.hooks_for_tests:lossless-bucket_40mb"


@pytest.mark.parametrize(
    "name", ["bucket_0mb", "bucket_mb", "bucket_1.5mb", "bucket_-1mb", "powersdg-bucket_25mb", "bf16-bf16-bucket_25mb"]
)
def test_another_name_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(NotFound, match="no config named"):
        find_config(name)


# The lines to paste of every config


def lines(config: Config) -> tuple[str, ...]:
    return *config.lines(), *step_lines(config)


def test_the_lines_are_python_and_differ_where_configs_do() -> None:
    by_lines: dict[tuple[str, ...], Config] = {}
    for config in CONFIGS.values():
        if config.as_written:  # its lines are those of the script
            continue
        other = by_lines.setdefault(lines(config), config)
        assert replace(config, name="") == replace(other, name=""), f"{config.name} has the lines of {other.name}"
    for config in CONFIGS.values():
        compile("\n".join(lines(config)), config.name, "exec")


def test_a_feed_has_its_workers_a_copy_back_its_interval_and_a_model_without_ddp_none_of_its_options() -> None:
    assert step_lines(CONFIGS["feed_loader_2"])[1] == "workers = 2"
    assert step_lines(CONFIGS["feed_loader"])[1] == "workers = 8  # or the cores of a rank, if fewer"
    interval = "if step % 10 == 9:  # after optimizer.step()"
    assert step_lines(CONFIGS["loss_item_every_10"]) == (interval, "    print(loss.item())")
    assert interval in step_lines(CONFIGS["checkpoint_copy"])
    assert step_lines(CONFIGS["single_compile"]) == ("model = torch.compile(model)",)


def test_a_graph_of_accumulated_batches_has_both() -> None:
    text = "\n".join(step_lines(CONFIGS["graph-accumulate_4-bucket_25mb"]))
    assert "model.no_sync() if part < 3" in text
    assert "train_step(static_batches)" in text


def test_a_graph_copies_every_part_of_its_batches_and_the_host_gets_the_outputs_of_a_replay() -> None:
    batches = [[torch.full((2,), 1.0), torch.tensor(2)], [torch.full((2,), 3.0), torch.tensor(4)]]
    static = [[torch.zeros_like(part) for part in batch] for batch in batches]
    names = {"batches": batches, "static_batches": static, "batch": batches[0], "static_batch": static[1]}
    for config in ("graph-bucket_25mb", "graph-accumulate_4-bucket_25mb"):
        code = step_lines(CONFIGS[config])
        first = next(number for number, line in enumerate(code) if line.startswith("for static"))
        exec("\n".join(code[first : code.index("graph.replay()")]), dict(names))
        copied = static[1] if config == "graph-bucket_25mb" else static[0] + static[1]
        expected = batches[0] if config == "graph-bucket_25mb" else batches[0] + batches[1]
        assert all(map(torch.equal, copied, expected))
    code = step_lines(CONFIGS["graph-outputs_pipelined-bucket_25mb"])
    after = code[code.index("graph.replay()") + 1 :]
    assert "sent = outputs.detach().clone()  # the next replay overwrites outputs" in after
    assert "    pinned[step % 2].copy_(sent, non_blocking=True)" in after
    assert not any("optimizer.step()" in line for line in after)


def test_an_optimizer_in_backward_wraps_the_hook_of_the_config() -> None:
    assert CONFIGS["graph-bf16-in_backward-bucket_25mb"].lines()[-1] == (
        "model.register_comm_hook(None, OptimizerInBackward(optimizer).after(bf16_compress_hook))"
    )
    assert CONFIGS["in_backward-bucket_25mb"].lines()[-1] == (
        "model.register_comm_hook(None, OptimizerInBackward(optimizer).after(allreduce_hook))"
    )


def test_a_captured_step_without_an_optimizer_step_does_not_name_one() -> None:
    plain, in_backward = ("\n".join(step_lines(CONFIGS[f"graph-{way}bucket_25mb"])) for way in ("", "in_backward-"))
    assert "backward(), optimizer.step()" in plain
    assert "backward(), optimizer.step()" not in in_backward
