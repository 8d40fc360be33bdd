"""The position of a pytest among machines, from torchrun's variables."""

import pytest

from fixtures.extras.several_machines.place import BadMachines, Place, place_of

SECOND = {
    "TORCHELASTIC_RUN_ID": "none",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "node-a",
    "MASTER_PORT": "29500",
}


def test_torchrun_gives_the_place() -> None:
    assert place_of(SECOND) == Place(index=1, count=2, store_host="node-a", store_port=29500)


@pytest.mark.parametrize("environ", [{}, {"RANK": "1", "WORLD_SIZE": "2"}, {**SECOND, "GROUP_WORLD_SIZE": "1"}])
def test_without_torchrun_or_on_one_machine_there_is_none(environ: dict[str, str]) -> None:
    assert place_of(environ) is None


def test_one_pytest_a_machine_starts_the_ranks() -> None:
    with pytest.raises(BadMachines, match=r"torchrun started 8 pytest on this machine.*--nproc-per-node 1"):
        place_of({**SECOND, "LOCAL_WORLD_SIZE": "8"})
