"""The instance's name, from firmware, GPUs or CPU; which GPUs CUDA shows; the weakest of their links."""

from pathlib import Path

import pytest
import torch.cuda
from hypothesis import given
from hypothesis import strategies as st

from fixtures.machine.instance import detect, valid
from fixtures.machine.topology import Gpus, UnusableGpus, check_shown, hides_all, links_in_words, visible, weakest

NOWHERE = Path("/nowhere")

XEON = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz\n"
EPYC = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7R13 48-Core Processor\n"
CORE = "processor\t: 0\nmodel name\t: 13th Gen Intel(R) Core(TM) i7-1370P\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
RASPBERRY = ARM + "\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
NAMELESS = "processor\t: 0\nmodel name\t:\nstepping\t: 1\n"


def dmi(folder: Path, *, vendor: str, product: str) -> Path:
    """A folder like /sys/class/dmi/id."""
    (folder / "sys_vendor").write_text(f"{vendor}\n")
    (folder / "product_name").write_text(f"{product}\n")
    return folder


def h200(count: int, *, link: str | None = "nv18") -> Gpus:
    return Gpus(models=("NVIDIA H200",) * count, uuids=tuple(f"GPU-{i}" for i in range(count)), link=link)


@pytest.mark.parametrize("product", ["p4d.24xlarge", "g6e.48xlarge", "u-12tb1.112xlarge", "p5en.48xlarge"])
def test_on_ec2_the_firmware_reports_the_instance(tmp_path: Path, product: str) -> None:
    assert detect(h200(8), dmi=dmi(tmp_path, vendor="Amazon EC2", product=product)) == product


@pytest.mark.parametrize(
    ("vendor", "product"),
    [("Google", "Compute Engine"), ("QEMU", "p4d.24xlarge"), ("Amazon EC2", "../elsewhere"), ("Xen", "HVM domU")],
)
def test_elsewhere_and_where_the_firmware_reports_half_the_gpus_do(tmp_path: Path, vendor: str, product: str) -> None:
    assert detect(h200(8), dmi=dmi(tmp_path, vendor=vendor, product=product)) == "8x-nvidia-h200-nv18"
    dmi(tmp_path, vendor="Amazon EC2", product="p4d.24xlarge").joinpath("product_name").unlink()
    assert detect(h200(8), dmi=tmp_path) == "8x-nvidia-h200-nv18"


def of(link: str | None, *models: str) -> Gpus:
    return Gpus(models=tuple(f"NVIDIA {model}" for model in models), uuids=tuple("abcd"[: len(models)]), link=link)


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (h200(8), "8x-nvidia-h200-nv18"),
        (h200(2, link="sys"), "2x-nvidia-h200-sys"),
        (of(None, "L40S"), "1x-nvidia-l40s"),
        (of("nv12", *["A100-SXM4-80GB"] * 4), "4x-nvidia-a100-sxm4-80gb-nv12"),
        (of("phb", "L40S", "H200", "L40S"), "3x-nvidia-h200-nvidia-l40s-phb"),
        (of("unknown", *["GeForce RTX 4090"] * 2), "2x-nvidia-geforce-rtx-4090-unknown"),
    ],
)
def test_gpus_are_named_by_count_model_and_link(gpus: Gpus, name: str) -> None:
    assert detect(gpus, dmi=NOWHERE) == name


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (XEON, "intel-xeon-platinum-8375c"),
        (EPYC, "amd-epyc-7r13"),
        (CORE, "13th-gen-intel-core-i7-1370p"),
        (RASPBERRY, "raspberry-pi-4-model-b-rev-1-4"),
        *((nameless, "cpu") for nameless in (ARM, NAMELESS, "", None)),
    ],
)
def test_without_a_gpu_the_cpu_names_the_machine(tmp_path: Path, cpuinfo: str | None, name: str) -> None:
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert detect(Gpus(), dmi=NOWHERE, cpuinfo=tmp_path / "cpuinfo", cores=96) == f"96x-{name}"


@given(st.text(max_size=30), st.sampled_from(["nv4", "sys", None]))
def test_whatever_a_gpu_is_called_the_name_can_be_a_folder(model: str, link: str | None) -> None:
    assert valid(detect(Gpus(models=(model,), uuids=("GPU-0",), link=link), dmi=NOWHERE))


def test_a_name_has_letters_digits_dots_and_dashes_and_leads_nowhere_else() -> None:
    good = ("p4d.24xlarge", "8x-nvidia-h200-nv18", "my_machine", "A", "2")
    bad = ("", ".", "..", "../up", "a/b", "-k", "_x", "two words", "a\n", "naïve", "a:b")
    assert [name for name in (*good, *bad) if valid(name)] == [*good]


UUIDS = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"]


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        (None, [0, 1, 2, 3]),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("0,7,1", [0]),  # out of range ends the list, and so do -1 and a gap
        ("1,-1,2", [1]),
        ("0,,1", [0]),
        ("0,1,0", []),  # an index twice hides all
        ("GPU-bb33", [2]),
        ("GPU-c,GPU-b", [3, 2]),  # beginnings
        ("GPU-b,GPU-a", [2]),  # ambiguous ends the list, and so does an unknown one
        ("GPU-b,GPU-ff,GPU-c", [2]),
        ("GPU-b,GPU-bb33", []),
        ("GPU-b,0", [2]),  # a mixture ends the list
        ("0,GPU-b", [0]),
        *((nothing, []) for nothing in ("", "-1", "none", "NoDevFiles", ",0")),
    ],
)
def test_cuda_visible_devices_chooses(setting: str | None, shown: list[int]) -> None:
    assert visible(UUIDS, setting) == shown


@pytest.mark.parametrize("setting", [None, "0", " 1 , 3 ", "GPU-b", "2,9"])
def test_whole_gpus_are_measured_unless_all_are_hidden(setting: str | None) -> None:
    assert not hides_all(setting)
    check_shown(UUIDS, setting, devices=["nvidia0"])
    assert all(map(hides_all, ("", "-1", "none", "NoDevFiles", ",0")))


@pytest.mark.parametrize(
    ("uuids", "setting", "says"),
    [
        (UUIDS, "7", "CUDA_VISIBLE_DEVICES=7 shows none of the 4 GPUs"),
        (UUIDS, "GPU-ff", "CUDA_VISIBLE_DEVICES=GPU-ff shows none of the 4 GPUs"),
        (UUIDS, "0,0", "CUDA_VISIBLE_DEVICES=0,0 shows none of the 4 GPUs"),
        ([], None, "there is /dev/nvidia0, but NVML finds no GPU"),
    ],
)
def test_gpus_that_cannot_be_measured_are_not_taken_for_none(uuids: list[str], setting: str | None, says: str) -> None:
    assert not hides_all(setting)
    with pytest.raises(UnusableGpus) as raised:
        check_shown(uuids, setting, devices=["nvidia0"])
    assert says in str(raised.value)


ENTRIES = st.sampled_from(
    ["0", "1", "3", "-1", "", "x", "GPU-", "GPU-aa", "GPU-aa1", "GPU-b", "GPU-bb33", "GPU-ff", "b"]
)


@given(st.lists(ENTRIES, max_size=5, unique=True).map(",".join))
def test_torch_counts_the_same_gpus(setting: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", setting)
        parsed = torch.cuda._parse_visible_devices()
    if parsed and isinstance(parsed[0], str):
        parsed = torch.cuda._transform_uuid_to_ordinals(parsed, UUIDS)
    assert visible(UUIDS, setting) == parsed


@pytest.mark.parametrize(
    ("links", "slowest"),
    [
        ([], None),
        (["nv18", "nv18"], "nv18"),
        (["nv12", "nv4", "nv18"], "nv4"),
        (["nv4", "pix"], "pix"),
        (["pix", "sys", "node"], "sys"),
        (["pxb", "phb"], "phb"),
        (["node", "phb"], "node"),
        (["sys", "unknown", "nv18"], "unknown"),
    ],
)
def test_the_weakest_link_speaks_for_all(links: list[str], slowest: str | None) -> None:
    assert weakest(links) == slowest


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([], None),
        (["sys"] * 6, "sys"),
        (["nv4", *["sys"] * 4, "nv4"], "sys-2xnv4"),
        (["nv4", *["sys"] * 5], "sys-1xnv4"),
        (["nv4"] * 4 + ["node"] * 8 + ["sys"] * 16, "sys-4xnv4"),
        (["nv1"] * 8 + ["nv2"] * 8 + ["sys"] * 12, "sys-8xnv1-8xnv2"),
        (["nv18"] * 28, "nv18"),
        (["nv12", "nv4", "nv12"], "nv4"),
    ],
)
def test_nvlinks_between_some_pairs_are_named(links: list[str], words: str | None) -> None:
    assert links_in_words(links) == words
    assert words is None or valid(detect(of(words, "RTX A6000", "RTX A6000"), dmi=NOWHERE))
