"""Runs an ONNX Runtime session on bound tensors, or on a dictionary if the model has strings.

Theory of operation. In every call, `session.run` looks up names and copies inputs. This takes 3 to
7 µs, which are not part of the inference itself. `BoundCall` instead binds a buffer for each input
once. Each sample is copied into these buffers in place, and the native run reads the buffers. Times
to set an input of 256 bytes:

     57 ns   assignment of a memoryview to another memoryview
    146 ns   numpy's assignment
    174 ns   binding another value, without a copy
    226 ns   the library's `update_inplace`
    241 ns   `copyto`
    316 ns   `ctypes.memmove`

The library takes 340 ns to copy an output. Reading an output from a buffer that this driver
allocates would take 160 ns. But this works only if the shape of the output is known before the
inference.

Each run receives an options object that is created once and contains only defaults. Without this
object, the library creates an options object in each call, which takes 0.9 µs. Called in this way,
a run is as fast as a run by the library's C interface and ctypes (docs/performance.md).

Writing in place requires a session that reads the memory of this process. For a session on a GPU or
another device, binding creates a copy in the memory of that device. In such a session, and if
samples differ in shape, each sample is therefore bound again. A session keeps the output tensor of
the first run for later runs, and rejects a run that needs another shape. Outputs without a fixed
shape are therefore also bound again with each sample.

The library ends the process if a bound output is read before it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from edgebench.protocol.errors import TargetError
from edgebench.protocol.record import TensorSpec

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor


class BoundCall:
    """Runs a session on bound tensors; the methods are those of `LoadedModel`."""

    def __init__(
        self, library: Any, session: Any, *, inputs: Sequence[str], outputs: Sequence[TensorSpec]
    ) -> None:
        self._value_from_numpy = library.OrtValue.ortvalue_from_numpy
        self._native = session._sess
        self._run_options = library.RunOptions()
        self._binding = session.io_binding()
        self._names = tuple(inputs)
        self._outputs = tuple(spec.name for spec in outputs)
        self._reads_our_memory = session.get_providers() == ["CPUExecutionProvider"]
        self._has_fixed_outputs = all(size >= 0 for spec in outputs for size in spec.shape)
        self._buffers: list[Tensor] = []
        self._bind_outputs()

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy the inputs into the bound buffers."""
        if not _have_one_shape([self._buffers, values]):
            self._buffers = [value.copy() for value in values]
        for buffer, value in zip(self._buffers, values, strict=True):
            buffer[...] = value
        self._binder(self._buffers)()

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """For each sample, a function that copies or binds the sample to the input buffers."""
        if not samples:
            return []
        can_stay_bound = self._reads_our_memory and self._has_fixed_outputs
        if can_stay_bound and _have_one_shape(samples):
            self.set_inputs(samples[0])
            return [self._writer(sample) for sample in samples]
        return [self._binder([_in_one_piece(value) for value in sample]) for sample in samples]

    def invoker(self) -> Callable[[], Any]:
        """The native function that runs an inference on the bound tensors."""
        bound = self._binding._iobinding
        return partial(self._native.run_with_iobinding, bound, self._run_options)

    def reader(self) -> Callable[[], Any]:
        """A function that copies the outputs; if they may be missing, it checks for them first."""
        read: Callable[[], Any] = self._binding._iobinding.copy_outputs_to_cpu
        # Outputs that are never bound again stay computed.
        return read if self._has_fixed_outputs and self._is_computed() else self._read_checked

    def _writer(self, sample: Sequence[Tensor]) -> Callable[[], Any]:
        pairs = [
            (_bytes_of(buffer), _bytes_of(_in_one_piece(value)))
            for buffer, value in zip(self._buffers, sample, strict=True)
        ]
        if len(pairs) == 1:
            ((target, source),) = pairs
            return partial(target.__setitem__, slice(None), source)

        def write_each() -> None:
            for target, source in pairs:
                target[:] = source

        return write_each

    def _binder(self, values: Sequence[Tensor]) -> Callable[[], Any]:
        bind = self._binding._iobinding.bind_ortvalue_input
        # The library's own object keeps alive the array to which its native object points.
        bound = [self._value_from_numpy(value) for value in values]
        pairs = list(zip(self._names, bound, strict=True))

        def bind_each() -> None:
            for name, value in pairs:
                bind(name, value._ortvalue)
            if not self._has_fixed_outputs:
                self._bind_outputs()

        return bind_each

    def _bind_outputs(self) -> None:
        for name in self._outputs:
            self._binding.bind_output(name)

    def _is_computed(self) -> bool:
        return all(value.has_value() for value in self._binding.get_outputs())

    def _read_checked(self) -> Any:
        if not self._is_computed():
            raise TargetError("onnx has no outputs yet: no inference since the inputs were set")
        return self._binding.copy_outputs_to_cpu()


class FedCall:
    """Runs a session on a dictionary of inputs, for models with strings, which cannot be bound."""

    def __init__(self, session: Any, *, inputs: Sequence[str]) -> None:
        self._run = session.run
        self._names = tuple(inputs)
        self._feed: dict[str, Tensor] = {}
        self._outputs: list[Tensor] = []

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Keep the inputs for the next run, which copies them."""
        self._feed = dict(zip(self._names, values, strict=True))

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """For each sample, a function that selects the sample for the next run."""
        return [partial(self.set_inputs, sample) for sample in samples]

    def invoker(self) -> Callable[[], Any]:
        """A function that runs an inference and keeps the outputs, which are new arrays."""

        def invoke() -> None:
            self._outputs = self._run(None, self._feed)

        return invoke

    def reader(self) -> Callable[[], Any]:
        """A function that returns the outputs, which the run has already copied."""
        return lambda: self._outputs


def _have_one_shape(samples: Sequence[Sequence[Tensor]]) -> bool:
    kinds = {tuple((value.shape, value.dtype.str) for value in sample) for sample in samples}
    return len(kinds) == 1


def _in_one_piece(value: Tensor) -> Tensor:
    return value if value.flags.c_contiguous else value.copy()


def _bytes_of(array: Tensor) -> memoryview:
    return array.reshape(-1).view("uint8").data
