"""Tries a runtime: loads and runs a model with a single addition.

A successful import is not enough: with numpy 2, tflite-runtime can be imported and builds an
interpreter, but fails at the first model.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from edgebench.agent.runtimes.text import library_line
from edgebench.agent.runtimes.trivial_models import TRIVIAL_MODELS
from edgebench.protocol.errors import ModelRefused, RuntimeUnavailable
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

_OLD_NUMPY = re.compile(r"_ARRAY_API|numpy\.core\.multiarray|compiled using NumPy 1")
"""Messages of numpy 2 about a library built with numpy 1. Source: numpy, "Troubleshooting"."""


def load_trivial(runtime: Runtime, *, threads: int) -> tuple[LoadedModel, str, list[Tensor]] | None:
    """Load a model of one addition; returns model, path and input, or None for other formats."""
    import numpy as np

    content = next(
        (TRIVIAL_MODELS[name] for name in runtime.formats if name in TRIVIAL_MODELS), b""
    )
    if not content:
        return None
    # An unnamed file, which disappears however the process ends.
    file = os.memfd_create("trivial")
    os.write(file, content)
    path = f"/proc/self/fd/{file}"
    model = runtime.load(path, LoadOptions(threads))
    return model, path, [np.ones(spec.shape, spec.dtype) for spec in model.inputs]


def why_it_fails(runtime: Runtime, library: str) -> str | None:
    """Why a runtime fails to run a model with a single addition; None if it does not fail.

    Args:
        runtime: Runtime whose library is imported.
        library: Name and version of the library.
    """
    import numpy as np

    try:
        loaded = load_trivial(runtime, threads=1)
        if loaded is None:
            return None
        model, _, sample = loaded
        model.set_inputs(sample)
        model.invoker()()
        (output,) = model.read_outputs()
        if output.tolist() != np.add(sample[0], 1).tolist():
            raise ModelRefused(f"1 + 1 gave {output.ravel()[:1].tolist()}")
    except RuntimeUnavailable as exc:
        return str(exc)
    except Exception as exc:  # libraries raise many types
        if is_for_old_numpy(exc):
            return needs_old_numpy(library)
        text = library_line(exc) or type(exc).__name__
        return f"{library} cannot run a model of one addition: {text}"
    return None


def is_for_old_numpy(error: BaseException) -> bool:
    """Whether a library failed because numpy 2 is installed, although it was built with numpy 1."""
    import numpy as np

    if int(np.__version__.partition(".")[0]) < 2:
        return False
    # The library's C code does not find numpy, and returns without setting an error.
    return isinstance(error, SystemError) or bool(_OLD_NUMPY.search(str(error)))


def needs_old_numpy(library: str) -> str:
    """Reason why a library that was built with numpy 1 fails."""
    import numpy as np

    return f"{library} needs numpy<2, found {np.__version__}"
