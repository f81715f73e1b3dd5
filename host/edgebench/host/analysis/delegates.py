"""Names of delegates, and the hardware that they run on.

Requested delegates and the places in which operators run have the same names:

- for a runtime's own kernels, `builtin`
- for ONNX Runtime, the name of an execution provider
- for TensorFlow Lite, the name of a delegate or the path of the delegate's library

Source: onnxruntime.ai/docs/execution-providers, its table of providers by kind of hardware (oneDNN
and Arm Compute Library are kernels for CPUs); for libraries, the file names in the vendors' guides
to `load_delegate`: libedgetpu.so.1 (Coral), libvx_delegate.so and libethosu_delegate.so,
libneutron_delegate.so (NXP), libhexagon_delegate.so (TensorFlow Lite).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from edgebench.protocol.record import WorkerRecord

_CPU = frozenset({"cpu", "builtin", "none", "xnnpack", "dnnl", "acl"})
_ACCELERATORS = {
    "gpu": {
        *("gpu", "cuda", "tensorrt", "nvtensorrtrtx", "rocm", "migraphx", "opencl", "webgpu"),
        "dml",
    },
    "tpu": {"tpu", "edgetpu"},
    "npu": {"npu", "vsinpu", "vx", "rknn", "rknpu", "ethos", "ethosu", "neutron"},
    "dsp": {"dsp", "hexagon"},
}
"""Maps each kind of accelerator in device profiles to whole words in the names of its delegates."""
_PROVIDER_SUFFIX = "executionprovider"


def plain_name(delegate: str) -> str:
    """Name of a delegate as `--delegate` accepts it; paths of libraries are returned unchanged.

    >>> plain_name("CUDAExecutionProvider"), plain_name("cuda"), plain_name("/opt/libA.so")
    ('cuda', 'cuda', '/opt/libA.so')
    """
    return delegate if "/" in delegate else delegate.lower().removesuffix(_PROVIDER_SUFFIX)


def is_cpu(delegate: str) -> bool:
    """Whether a delegate's kernels run on the CPU.

    >>> is_cpu("builtin"), is_cpu("XnnpackExecutionProvider"), is_cpu("cuda")
    (True, True, False)
    """
    return plain_name(delegate) in _CPU


def accelerator_kinds(delegate: str) -> set[str]:
    """Kinds of accelerator in the name of a delegate; empty if the name contains none.

    >>> accelerator_kinds("/usr/lib/librknn_delegate.so"), accelerator_kinds("/opt/input.so")
    ({'npu'}, set())
    """
    file_name = plain_name(delegate).rpartition("/")[2].partition(".")[0].lower()
    words = set(re.split(r"[^a-z0-9]+", file_name.removeprefix("lib")))
    return {kind for kind, names in _ACCELERATORS.items() if names & words}


def operator_places(worker: WorkerRecord) -> Counter[str]:
    """Maps each place (CPU or delegate) to its number of operators; empty if not reported.

    If the runtime reports places only in its profile, as older versions of onnxruntime do, the
    operators in the profile are counted. These are the operators after fusion.
    """
    counts: Counter[str] = Counter()
    for part in worker.placement:
        counts[part.place] += part.count
    return counts or Counter(operator.place for operator in worker.check.operators)


def delegated_count(worker: WorkerRecord, delegates: Collection[str]) -> tuple[int, int] | None:
    """Number of operators on these delegates, and number of all operators; None if unknown."""
    places = operator_places(worker)
    if not places:
        return None
    delegated = sum(count for place, count in places.items() if plain_name(place) in delegates)
    return delegated, sum(places.values())
