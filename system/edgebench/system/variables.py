"""Environment variables that change a measurement, or that are passed to a process with a model.

An agent that a CI job starts has the job's tokens in its environment. A model may execute code in
the process that loads the model. So a worker, a probe of a runtime and the process with reference
kernels get only listed variables. These are the variables that a process needs to start, and the
variables that change a measurement. The same list decides whether two commands measure in the same
environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath

VARIABLES_VARIABLE = "EDGEBENCH_VARIABLES"
"""Environment variable with further names for the list, separated by colons; `NAME*` stands for all
names that begin with NAME."""
LISTED: dict[str, tuple[str, ...]] = {
    # Libraries look for programs and for their caches; their access to files is confined.
    "places": ("PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX"),
    # Language of messages, and decoding of text.
    "language": ("LANG", "LANGUAGE", "LC_*", "TZ"),
    # Paths to a runtime's libraries; a preloaded allocator, and settings of the C library, change
    # latencies. Sources: ld.so(8), mallopt(3).
    "loader": ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_BIND_NOW", "GLIBC_TUNABLES", "MALLOC_*"),
    # Paths to packages, and settings of the interpreter.
    "Python": (
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONOPTIMIZE", "PYTHONHASHSEED"),
        *("PYTHONMALLOC", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONWARNINGS", "PYTHON_GIL"),
        *("PYTHONFAULTHANDLER", "PYTHONPROFILEIMPORTTIME"),
    ),
    # Number and placement of threads.
    "threads": (
        *("OMP_*", "GOMP_*", "KMP_*", "OPENBLAS_*", "GOTO_NUM_THREADS", "BLIS_*", "MKL_*"),
        *("TBB_*", "NUMEXPR_*"),
    ),
    # Settings of runtimes. TF_* as a whole would include Terraform's secrets (TF_VAR_*).
    "runtimes": (
        *("ORT_*", "ONNXRUNTIME_*", "TFLITE_*", "LITERT_*", "XNN_*", "XNNPACK_*", "TVM_*"),
        *("TF_CPP_*", "TF_ENABLE_*", "TF_DISABLE_*", "TF_NUM_*", "TF_GPU_*", "TF_FORCE_*"),
        *("TF_XLA_*", "XLA_*", "DNNL_*", "ONEDNN_*", "OPENVINO_*", "OV_*", "ARMNN_*", "ACL_*"),
    ),
    # Visible accelerators, and settings of their drivers.
    "accelerators": (
        *("CUDA_*", "CUDNN_*", "CUBLAS_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE"),
        *("NVIDIA_DRIVER_CAPABILITIES", "ORT_TENSORRT_*", "TRT_*", "TENSORRT_*"),
        *("ROCR_*", "ROCM_*", "HIP_*", "HSA_*", "MIOPEN_*", "MIGRAPHX_*", "GPU_DEVICE_ORDINAL"),
        *("ZE_*", "ONEAPI_*", "SYCL_*", "OCL_*", "OPENCL_*", "QNN_*", "SNPE_*"),
        *("ADSP_LIBRARY_PATH", "CDSP_LIBRARY_PATH", "DSP_LIBRARY_PATH", "HAILO_*", "RKNN_*"),
        *("EDGETPU_*", "VIV_*", "VSI_NN_*", "USE_GPU_INFERENCE", "CNN_PERF"),
        *("VK_*", "VULKAN_*", "MESA_*", "GALLIUM_*", "LIBGL_*", "EGL_*", "__EGL_*", "__GLX_*"),
        *("__NV_*", "__GL_*", "DRI_PRIME"),
    ),
    # Processor that qemu-user emulates; without these, a worker and its agent would have different
    # processors.
    "emulators": ("QEMU_CPU", "QEMU_LD_PREFIX", "QEMU_RESERVED_VA", "QEMU_STACK_SIZE"),
    # Variables of edgebench that a worker reads.
    "edgebench": ("EDGEBENCH_READABLE", "EDGEBENCH_FIRMWARE", "EDGEBENCH_DEBUG"),
}
"""Names of variables, grouped by the reason for passing them on; `NAME*` stands for all names that
begin with NAME."""
WIRING_VARIABLES = ("EDGEBENCH_METERS", "EDGEBENCH_SYNC_LINE")
"""Variables with the meters and the sync line of a machine, for an agent that a command starts."""
_UNMEASURED = ("places", "language")
"""Names of groups in the list whose variables do not change measurements."""
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|(?:^|_)(?:API|ACCESS|AUTH)?_?KEY(?:_|$)"
)
"""Pattern of the names of secrets. A secret is excluded even if the list has a `NAME*` that matches
its name."""


def worker_environment(
    variables: Mapping[str, str], directory: PurePath, *, is_target: bool = False
) -> dict[str, str]:
    """Variables for a process that loads a model or drives a target.

    Args:
        variables: Variables of the agent.
        directory: Directory that the process may write to, also for temporary files of libraries.
        is_target: Whether the process drives a target. Such a process gets all variables, because
            it loads no model, and the programs that its driver starts may need any variable.
    """
    listed = dict(variables) if is_target else listed_variables(variables)
    return listed | {"TMPDIR": str(directory)}


def listed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that are in `LISTED`, or that the agent's owner has added by EDGEBENCH_VARIABLES.

    >>> listed_variables({"OMP_NUM_THREADS": "2", "GITHUB_TOKEN": "x", "ORT_API_KEY": "y"})
    {'OMP_NUM_THREADS': '2'}
    """
    is_known = _matcher(name for group in LISTED.values() for name in group)
    is_added = _matcher(filter(None, variables.get(VARIABLES_VARIABLE, "").split(":")))
    return {
        name: value
        for name, value in variables.items()
        if (is_known(name) and not _SECRET.search(name)) or is_added(name)
    }


def measured_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that may change a measurement.

    >>> measured_variables({"LANG": "C", "OMP_NUM_THREADS": "2", "PATH": "/bin"})
    {'OMP_NUM_THREADS': '2'}
    """
    is_unmeasured = _matcher(name for group in _UNMEASURED for name in LISTED[group])
    listed = listed_variables(variables)
    return {
        name: value
        for name, value in sorted(variables.items())
        if name in (*WIRING_VARIABLES, VARIABLES_VARIABLE)
        or (name in listed and not is_unmeasured(name))
    }


def _matcher(names: Iterable[str]) -> Callable[[str], bool]:
    """Create a function that tests whether a name is listed; `NAME*` lists a prefix.

    `fnmatch` is not used, because it would compile a hundred patterns in each process, which takes
    4 ms on a fast CPU.
    """
    known = tuple(names)
    exact = frozenset(known)
    prefixes = tuple(name[:-1] for name in known if name.endswith("*"))
    return lambda name: name in exact or name.startswith(prefixes)
