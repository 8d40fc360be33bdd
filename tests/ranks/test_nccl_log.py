"""NCCL's log settings in ranks, and the part of the log that belongs to each group; live ranks without NCCL."""

from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.machine.nccl_log import Choices, fingerprint
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests import nccl_logs as logs

ONE, TWO = World(backend="gloo", size=1), World(backend="gloo", size=2)
LOG = "fixtures.ranks.process_group:nccl_log"
WRITE = "tests.ranks.rank_turns:write"


def call(ranks: RankSet, function: str, world: World = ONE, **arguments: object) -> list[object]:
    return ranks.run(world, function, arguments, doing="testing the log")


def test_measured_ranks_log_nothing_of_a_call_and_profiled_ones_do(two_ranks: RankSets, ranks: RankSet) -> None:
    profiled = two_ranks.profiled(INTERCONNECTS["native"])
    told = [call(one, "tests.ranks.rank_turns:subsystems")[0] for one in (ranks, profiled)]
    assert [one["NCCL_DEBUG_SUBSYS"] for one in told if isinstance(one, dict)] == ["INIT,ENV", "INIT,ENV,TUNING"]


def test_a_groups_log_is_its_own_with_the_version_and_the_variables_of_the_process(ranks: RankSet) -> None:
    first = logs.V2_30_START + logs.V2_25_VARIABLES + logs.V2_22_CUMEM
    call(ranks, WRITE, text=first)
    assert call(ranks, LOG) == [first]
    call(ranks, LOG, TWO)  # another world, so another group
    call(ranks, WRITE, TWO, text=logs.V2_22_CUMEM)
    texts = [str(text) for text in call(ranks, LOG, TWO)]
    variables = "".join(line for line in logs.V2_25_VARIABLES.splitlines(keepends=True) if "environment" in line)
    assert texts == ["NCCL version 2.30.3+cuda13.0\n" + variables + logs.V2_22_CUMEM, logs.V2_22_CUMEM]
    parsed = fingerprint("\n".join(texts))
    assert (parsed.nccl, parsed.pairs) == ("2.30.3", {"0 -> 1": {"P2P/CUMEM": "2-4,10"}})


def test_configs_with_settings_of_nccl_take_turns_in_groups_of_their_own_which_leave_no_trace(ranks: RankSet) -> None:
    """Two configs with the same setting share a group. Over gloo it has no effect."""
    call(ranks, LOG, TWO)
    call(ranks, WRITE, TWO, text="before\n")
    configs = ["bucket_10mb", "ctas_4-bucket_10mb", "bf16-ctas_4-bucket_5mb", "algorithm_ring-bucket_25mb"]
    found = call(ranks, "tests.ranks.rank_turns:groups", TWO, configs=configs)
    assert found == [{"of_default": [True, False, False, False], "groups": 1}] * 2
    call(ranks, WRITE, TWO, text="after\n")
    for text in call(ranks, LOG, TWO):
        assert str(text).endswith("before\nafter\n")


def test_what_a_profiled_launch_sends_before_its_profiled_steps_is_no_choice_for_them(ranks: RankSet) -> None:
    call(ranks, WRITE, text=logs.V2_29_TUNING)
    request = TrainRequest(workload="vit_tiny", config="ddp", world=ONE.name, steps=1, warmup=1, profile=4)
    (result,) = ranks.ask(ONE, request, doing="training")
    assert result.nccl_choices == Choices()


def test_the_processes_of_a_run_are_its_ranks(two_ranks: RankSets, ranks: RankSet) -> None:
    assert set(call(ranks, WRITE, TWO, text="")) <= set(two_ranks.processes())
