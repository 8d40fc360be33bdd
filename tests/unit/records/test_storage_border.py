"""No name of an instance and no link leads out of the storage: on reading and saving."""

import json
import os
from pathlib import Path

import pytest

from fixtures.machine.instance import BadInstance, checked, folder_of
from fixtures.records.baselines import BadBaseline, BaselineStorage, read_history
from fixtures.records.schema import SCHEMA
from tests.nightly_records import Record, benchmark

HERE = "rack-7"
TEST = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp]"
# Names that are no folder's name, and names that begin as a good one and lead elsewhere.
HOSTILE = {
    "empty": "",
    "dot": ".",
    "parent": "..",
    "below a parent": "../elsewhere",
    "far below a parent": "../../../../elsewhere",
    "through a good name": f"{HERE}/../../elsewhere",
    "absolute": "/elsewhere",
    "below the storage": f"{HERE}/more",
    "hidden": ".rack",
    "NUL": f"{HERE}\0",
    "line end": f"{HERE}\n",
    "option": "-rf",
    "backslashes": "..\\elsewhere",
    "drive": "C:elsewhere",
    "long": "x" * 201,
    "other letters": "räck",
}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Deep enough that what leads out of it stays inside tmp_path."""
    folder = tmp_path / "1" / "2" / "3" / "baselines"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def linked(storage: Path, tmp_path: Path) -> Path:
    """A storage in which the folder of HERE is a link to a folder outside."""
    (tmp_path / "elsewhere").mkdir()
    (storage / HERE).symlink_to(tmp_path / "elsewhere")
    return storage


def files_in(folder: Path) -> list[str]:
    return sorted(os.path.relpath(file, folder) for file in folder.rglob("*") if file.is_file())


def record(instance: str) -> Record:
    return {"schema": SCHEMA, "benchmarks": [benchmark(TEST, 0.1, instance=instance)]}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_record_of_no_instance_is_not_read_or_saved_and_costs_the_others_nothing(
    storage: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(BadBaseline, match=r"instance '.*: a name has letters"):
        read_history(storage, name)
    saving = BaselineStorage(str(storage), logger=None, default_machine_id=HERE)
    benchmarks = [record(one)["benchmarks"][0] for one in (name, HERE)]
    saving.save({"schema": SCHEMA, "benchmarks": benchmarks}, "night")
    assert files_in(tmp_path) == [f"1/2/3/baselines/{HERE}/0001_night.json"]
    (unwritten,) = saving.unwritten
    assert unwritten.startswith("the baseline of instance '")


def test_no_link_out_of_the_storage_is_followed(linked: Path, tmp_path: Path) -> None:
    outside = f"is a link to {tmp_path / 'elsewhere'}, outside the storage: replace the link by a folder"
    saving = BaselineStorage(str(linked), logger=None, default_machine_id=HERE)
    saving.save(record(HERE), "night")
    assert files_in(tmp_path) == []
    (unwritten,) = saving.unwritten
    assert outside in unwritten
    (tmp_path / "elsewhere" / "0001_night.json").write_text(json.dumps(record(HERE)))
    with pytest.raises(BadBaseline, match="outside the storage: replace the link by a folder"):
        read_history(linked, HERE)


def test_a_link_to_a_folder_of_the_storage_and_one_to_the_whole_storage_are_followed(
    storage: Path, tmp_path: Path
) -> None:
    (storage / "rack-8").mkdir()
    (storage / HERE).symlink_to("rack-8")
    (tmp_path / "link").symlink_to(storage)
    assert folder_of(storage, HERE) == storage / HERE
    assert folder_of(tmp_path / "link", "rack-8") == tmp_path / "link" / "rack-8"


@pytest.mark.parametrize("link", [".", "..", "rack-8/more"], ids=["storage", "parent", "below"])
def test_a_link_to_anything_else_is_not(storage: Path, link: str) -> None:
    (storage / HERE).symlink_to(link)
    with pytest.raises(BadInstance):
        folder_of(storage, HERE)


@pytest.mark.parametrize("other", [None, 7, ["rack-7"], b"rack-7", "a\nb" * 1000], ids=str)
def test_only_text_is_a_name_and_the_message_is_one_short_line(other: object) -> None:
    with pytest.raises(BadInstance) as raised:
        checked(other)
    assert len(str(raised.value)) < 250
    assert "\n" not in str(raised.value)
