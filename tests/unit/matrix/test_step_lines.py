"""The lines to paste of every config."""

from dataclasses import replace

import torch

from fixtures.matrix.config import Config, step_lines
from fixtures.matrix.configs import CONFIGS


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
