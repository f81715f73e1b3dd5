"""Names of delegates: one table states what is the CPU, and which accelerator the rest is."""

from __future__ import annotations

import pytest

from edgebench.host.analysis.delegates import accelerator_kinds, is_cpu


@pytest.mark.parametrize(
    "name",
    ["builtin", "none", "cpu", "xnnpack", "CPUExecutionProvider", "DnnlExecutionProvider", "acl"],
)
def test_kernels_for_cpus_are_the_cpu(name: str) -> None:
    """Otherwise a GPU's clock would count for a model on oneDNN, whose outputs could be wrong."""
    assert is_cpu(name)


@pytest.mark.parametrize("name", ["cuda", "CUDAExecutionProvider", "/opt/cpu.so", "cpux", "x"])
def test_whatever_else_is_not_the_cpu(name: str) -> None:
    """Otherwise an accelerator's fewer bits would be called a wrong kernel."""
    assert not is_cpu(name)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("cuda", {"gpu"}),
        ("TensorrtExecutionProvider", {"gpu"}),
        ("VSINPUExecutionProvider", {"npu"}),
        ("/usr/lib/libvx_delegate.so", {"npu"}),
        ("/usr/lib/libethosu_delegate.so", {"npu"}),
        ("/usr/lib/aarch64-linux-gnu/libedgetpu.so.1.0", {"tpu"}),
        ("libtensorflowlite_gpu_delegate.so", {"gpu"}),
        ("libhexagon_delegate.so", {"dsp"}),
    ],
)
def test_name_tells_the_kind_of_accelerator(name: str, kinds: set[str]) -> None:
    """Otherwise the clock of another accelerator would be taken for the model's."""
    assert accelerator_kinds(name) == kinds


@pytest.mark.parametrize(
    "name", ["/home/npu/lib/libmine.so", "/opt/input.so", "libinput_delegate.so", "output", ""]
)
def test_part_of_a_word_or_of_a_directory_tells_nothing(name: str) -> None:
    """Otherwise `npu` would be found in `input`."""
    assert accelerator_kinds(name) == set()
