"""Files with several graphs: each runtime of .tflite files runs the graph that is named."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.digits import PACKAGES, imported
from support.signatures import WEIGHTS, WIDTH, one_graph, two_signatures
from support.tools import need_runtime, need_shared

from edgebench.agent.runtimes.interpreter_model import InterpreterModel
from edgebench.agent.worker.checks import reference_outputs
from edgebench.protocol.errors import ModelRefused, SignatureRefused
from edgebench.protocol.runtime import LoadOptions, Runtime, SignedModel

Load = Callable[..., InterpreterModel]
CODE = np.linspace(-1, 1, WIDTH, dtype=np.float32).reshape(1, WIDTH)


@pytest.fixture(params=["litert", "tflite"])
def driver(request: pytest.FixtureRequest) -> Runtime:
    """Each runtime that loads .tflite files."""
    need_runtime(PACKAGES[request.param])
    return imported(request.param)


@pytest.fixture
def load(driver: Runtime, tmp_path: Path) -> Iterator[Load]:
    """Load a file with these options; every model is closed at the end."""
    loaded: list[InterpreterModel] = []

    def load_one(content: bytes, **options: Any) -> InterpreterModel:
        path = tmp_path / f"{len(loaded)}.tflite"
        path.write_bytes(content)
        model = driver.load(str(path), LoadOptions(threads=1, **options))
        assert isinstance(model, InterpreterModel)
        loaded.append(model)
        return model

    yield load_one
    for model in loaded:
        model.close()


def run(model: InterpreterModel, sample: list[Any]) -> list[Any]:
    """Outputs of one inference by the calls of the timed loop."""
    (set_sample,) = model.prepare([sample])
    set_sample()
    model.invoker()()
    outputs = model.reader()()
    return outputs if isinstance(outputs, list) else [outputs]


def test_first_graph_runs_where_no_signature_is_named(load: Load) -> None:
    """Otherwise existing scripts would measure something else."""
    model = load(two_signatures())
    assert isinstance(model, SignedModel)
    assert (model.signature, model.signatures) == ("encode", ("encode", "decode"))
    (output,) = run(model, [np.zeros((1, 4), np.float32)])
    assert output.tolist() == [[1.0] * 4]
    assert model.placement()


def test_signature_runs_its_graph(load: Load) -> None:
    """Otherwise the numbers of one graph would have the name of the other."""
    model = load(two_signatures(), signature="decode")
    assert (model.signature, model.signatures) == ("decode", ("encode", "decode"))
    assert [(one.name, one.shape) for one in model.inputs] == [("code", (1, WIDTH))]
    assert [(one.name, one.shape) for one in model.outputs] == [("picture", (1, len(WEIGHTS)))]
    np.testing.assert_allclose(run(model, [CODE])[0], CODE @ WEIGHTS.T, rtol=1e-4)
    model.set_inputs([2 * CODE])
    model.invoker()()
    output: Any = model.read_outputs()[0]
    np.testing.assert_allclose(output, 2 * CODE @ WEIGHTS.T, rtol=1e-4)
    assert model.placement() == (), "nodes are listed of the first graph only"
    assert model.delegates_used == ()
    with pytest.raises(ModelRefused, match="only the first graph of a file is profiled"):
        model.profile(1)


def test_signature_of_the_first_graph_runs_as_without_it(load: Load) -> None:
    """Otherwise naming the default graph would lose placement and profile."""
    named, plain = load(two_signatures(), signature="encode"), load(two_signatures())
    assert named.signature == plain.signature
    assert named.placement() == plain.placement()
    assert named.invoker().__qualname__ == plain.invoker().__qualname__


def test_reference_kernels_run_the_same_graph(driver: Runtime, tmp_path: Path) -> None:
    """Otherwise the outputs of one graph would be compared with those of another."""
    path = tmp_path / "model.tflite"
    path.write_bytes(two_signatures())
    output: Any = reference_outputs(driver, str(path), [[CODE]], signature="decode")[0][0]
    np.testing.assert_allclose(output, CODE @ WEIGHTS.T, rtol=1e-4)


def test_open_dimensions_of_a_signature_get_their_sizes(load: Load) -> None:
    """Otherwise only the first graph could be given a batch."""
    model = load(two_signatures(size=-1), signature="decode", shapes={"code": (3, WIDTH)})
    assert model.inputs[0].shape == (3, WIDTH)
    (output,) = run(model, [np.repeat(CODE, 3, axis=0)])
    np.testing.assert_allclose(output, np.repeat(CODE @ WEIGHTS.T, 3, axis=0), rtol=1e-4)


@pytest.mark.parametrize(
    ("content", "there"),
    [(two_signatures(), "it has encode, decode"), (one_graph(), "it has no signatures")],
)
def test_unknown_signature_is_refused_with_those_of_the_file(
    load: Load, content: bytes, there: str
) -> None:
    """Otherwise a spelling mistake would measure the first graph."""
    with pytest.raises(SignatureRefused, match=f"no signature 'deocde': {there}"):
        load(content, signature="deocde")


def test_file_without_signatures_has_none(load: Load) -> None:
    """Otherwise every model would have a note on its signatures."""
    model = load(one_graph())
    assert (model.signature, model.signatures) == (None, ())


def test_precision_is_that_of_the_graph_that_runs(load: Load) -> None:
    """Otherwise an encoder without weights would have the precision of the decoder's."""
    encode, decode = load(two_signatures()), load(two_signatures(), signature="decode")
    assert encode._facts.weight_counts.total() == 0
    assert decode._facts.weight_counts.total() == WEIGHTS.size


def test_signature_is_called_without_python_around_it(load: Load) -> None:
    """Otherwise the binding's cost, measured with one graph, would not apply."""
    invoke = load(two_signatures(), signature="decode").invoker()
    assert isinstance(invoke, partial)
    assert type(invoke.func).__name__ in ("builtin_function_or_method", "method", "instancemethod")
    assert invoke.args == (1,)
    assert not invoke.keywords


def test_colleagues_file_takes_the_default_delegate_in_both_graphs(driver: Runtime) -> None:
    """Otherwise a signature would be measured without the kernels that it has in use.

    The kernels are distinguished by their outputs: XNNPACK adds in another order than the built-in
    kernels. The file is from a public report, so it is stored outside the checkout.
    """
    path = need_shared("cases/17-two-signatures") / "two_signatures.tflite"
    outputs: dict[str | None, Any] = {}
    for delegate in (None, "none"):
        options = LoadOptions(threads=1, delegate=delegate, signature="decode")
        model = driver.load(str(path), options)
        assert isinstance(model, SignedModel)
        assert model.signature == "decode"
        sample = [np.random.default_rng(0).random(one.shape, np.float32) for one in model.inputs]
        model.set_inputs(sample)
        model.invoker()()
        outputs[delegate] = model.read_outputs()[0].copy()
        model.close()
    np.testing.assert_allclose(outputs[None], outputs["none"], rtol=1e-4)
    if platform.machine() == "x86_64":  # where XNNPACK is known to differ in the last bits
        assert outputs[None].tobytes() != outputs["none"].tobytes()
