"""Records of runs in files: reading and editing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Any: records are JSON.
Record = dict[str, Any]


def read(file: Path) -> Record:
    record: Record = json.loads(file.read_text())
    return record


def records_of(storage: Path) -> dict[str, Record]:
    """File name -> record, in the folder of the only instance in ``storage``."""
    (folder,) = (path for path in storage.iterdir() if path.is_dir())
    return {file.name: read(file) for file in sorted(folder.iterdir())}


def ids_in(record: Record) -> list[str]:
    return [benchmark["fullname"] for benchmark in record["benchmarks"]]


def infos(record: Record) -> dict[str, Record]:
    """Test's name without its file -> its entry in the record."""
    return {benchmark["name"]: benchmark["extra_info"] for benchmark in record["benchmarks"]}


def only_info(file: Path) -> Record:
    """The entry of a single test in the record."""
    (info,) = infos(read(file)).values()
    return info


def edit(storage: Path, change: Callable[[Record], object]) -> None:
    """Change the only record in ``storage``."""
    (file,) = storage.glob("*/*.json")
    record = read(file)
    change(record)
    file.write_text(json.dumps(record))


def forget_canaries(record: Record) -> None:
    """A busy machine must not explain a slowdown."""
    del record["canaries"]
