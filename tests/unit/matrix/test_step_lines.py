"""The lines to paste of every config."""

from dataclasses import replace

import pytest

from fixtures.matrix.config import Config
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.step_lines import step_lines


def lines(config: Config) -> tuple[str, ...]:
    return *config.lines(), *step_lines(config)


def test_configs_that_differ_have_lines_that_differ() -> None:
    by_lines: dict[tuple[str, ...], Config] = {}
    for config in CONFIGS.values():
        if config.as_written:  # its lines are those of the script
            continue
        other = by_lines.setdefault(lines(config), config)
        assert replace(config, name="") == replace(other, name=""), f"{config.name} has the lines of {other.name}"


@pytest.mark.parametrize("config", CONFIGS)
def test_the_lines_are_python(config: str) -> None:
    compile("\n".join(lines(CONFIGS[config])), config, "exec")


def test_a_feed_has_the_loop_over_its_loader() -> None:
    assert step_lines(CONFIGS["feed_loader_2"])[1] == "workers = 2"
    assert step_lines(CONFIGS["feed_loader"])[1] == "workers = 8  # or the cores of a rank, if fewer"


def test_copies_back_have_their_interval() -> None:
    assert step_lines(CONFIGS["loss_item_every_10"]) == (
        "if step % 10 == 9:  # after optimizer.step()",
        "    print(loss.item())",
    )
    assert "if step % 10 == 9:  # after optimizer.step()" in step_lines(CONFIGS["checkpoint_copy"])


def test_a_compiled_model_without_ddp_has_no_option_of_ddp() -> None:
    assert step_lines(CONFIGS["single_compile"]) == ("model = torch.compile(model)",)


def test_a_graph_of_accumulated_batches_has_both() -> None:
    text = "\n".join(step_lines(CONFIGS["graph-accumulate_4-bucket_25mb"]))
    assert "model.no_sync() if part < 3" in text
    assert "train_step(static_batches)" in text


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
