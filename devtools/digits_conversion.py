"""Conversion of the trained network to TFLite and ONNX files, and the tensors that they declare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

INPUT_RANGE_MAX = 17 / 16
"""Upper end of the int8 input range; intentionally above the largest real input, which is 1.

255 steps over 17/16 have a size of 1/240, so pixel / 16 is exactly 15 * pixel steps, and all
programs quantise an input to the same value. With steps of 1/255, the input 8 / 16 would be halfway
between two steps, and programs would round it differently.
"""
ONNX_OPSET = 18
ONNX_IR_VERSION = 8
"""Opset and IR version of ONNX 1.13 (onnx.helper.VERSION_TABLE), which onnxruntime 1.17 loads."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output as its file declares it; real = scale * (stored - zero_point)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None


def write_tflite(network: Any, calibration: NDArray[np.float32], directory: Path) -> None:
    """Convert to fp32 TFLite, then quantise weights, activations, input and output to int8."""
    import litert_torch
    import torch
    from ai_edge_quantizer import qtyping, quantizer, recipe

    fp32_path = directory / "digits_fp32.tflite"
    nhwc_network = litert_torch.to_channel_last_io(network, args=[0]).eval()
    litert_torch.convert(nhwc_network, (torch.zeros(1, 8, 8, 1),)).export(str(fp32_path))

    tool = quantizer.Quantizer(str(fp32_path), recipe.static_wi8_ai8())
    # A single scale for the whole dense layer. The recipe's default is a scale per row, but the
    # file does not state a newer operator version then, so a kernel that reads a single scale
    # would run the model with wrong results.
    tool.add_static_config(
        ".*",
        qtyping.TFLOperationName.FULLY_CONNECTED,
        activation_num_bits=8,
        weight_num_bits=8,
        weight_granularity=qtyping.QuantGranularity.TENSORWISE,
    )
    ranges = tflite_ranges(fp32_path, calibration)
    int8_model = tool.quantize(ranges, enable_progress_report=False).quantized_model
    (directory / "digits_int8.tflite").write_bytes(int8_model)


def tflite_ranges(path: Path, calibration: NDArray[np.float32]) -> Any:
    """Minimum and maximum of every tensor, in the quantiser's format.

    The ranges are the extremes over all samples, as for the ONNX file, so that the two files are
    comparable. The quantiser's own calibration would average the extremes over the samples, and
    clip the largest logits.
    """
    from ai_edge_quantizer import calibrator
    from ai_edge_quantizer.utils import qsv_utils

    watched = calibrator.CalibrationInterpreter(
        str(path),
        mode=calibrator.CalibrationMode.CALIBRATION_PRESERVE_ALL_TENSORS,
        qsv_update_func=qsv_utils.min_max_update,
    )
    run = watched.get_signature_runner("serving_default")
    for image in calibration:
        run(args_0=image[np.newaxis])
    ranges = watched.get_calibration_results()
    image_range = ranges[tflite_tensors(path)[0].name]
    image_range["min"] = np.zeros_like(image_range["min"])
    image_range["max"] = np.full_like(image_range["max"], INPUT_RANGE_MAX)
    return ranges


def write_onnx(network: Any, calibration: NDArray[np.float32], directory: Path) -> None:
    """Export to fp32 ONNX, then quantise to int8: statically, per channel, in the QDQ format."""
    import onnx
    import torch
    from onnxruntime import quantization

    fp32_path, int8_path = directory / "digits_fp32.onnx", directory / "digits_int8.onnx"
    program = torch.onnx.export(
        network,
        (torch.zeros(1, 1, 8, 8),),
        input_names=["image"],
        output_names=["logits"],
        opset_version=ONNX_OPSET,
        dynamo=True,
    )
    save_portable_onnx(program.model_proto, fp32_path)
    feeds = ({"image": image.transpose(2, 0, 1)[np.newaxis]} for image in calibration)
    image_range = {"rmin": np.float32(0), "rmax": np.float32(INPUT_RANGE_MAX)}
    # Weights of 7 bits (reduce_range): x86 processors without VNNI add pairs of 8-bit products
    # in saturating 16 bits, and would compute other outputs than other processors.
    quantization.quantize_static(
        fp32_path,
        int8_path,
        SimpleNamespace(get_next=lambda: next(feeds, None)),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        extra_options={"TensorQuantOverrides": {"image": [image_range]}},
    )
    save_portable_onnx(onnx.load(int8_path), int8_path)


def save_portable_onnx(model: Any, path: Path) -> None:
    """Write a model so that old runtimes can load it, without the exporter's metadata.

    The metadata are stack traces with the directories of this machine, so they would differ on each
    machine; and they are larger than the graph.
    """
    import onnx

    graph = model.graph
    graph.name = "digits"
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for item in (model, graph, *graph.node, *values):
        del item.metadata_props[:]
    model.ir_version = ONNX_IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def tflite_tensors(path: Path) -> tuple[TensorInfo, TensorInfo]:
    """Input and output of a TFLite file."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)

    def info(details: dict[str, Any]) -> TensorInfo:
        scale, zero_point = details["quantization"]
        is_quantised = scale != 0
        return TensorInfo(
            name=details["name"],
            dtype=np.dtype(details["dtype"]).name,
            shape=tuple(int(size) for size in details["shape_signature"]),
            scale=float(scale) if is_quantised else None,
            zero_point=int(zero_point) if is_quantised else None,
        )

    return info(interpreter.get_input_details()[0]), info(interpreter.get_output_details()[0])


def onnx_tensors(path: Path) -> tuple[TensorInfo, TensorInfo]:
    """Input and output of an ONNX file; an unnamed or symbolic dimension becomes 0."""
    import onnx

    graph = onnx.load(path).graph

    def info(value: Any) -> TensorInfo:
        kind = value.type.tensor_type
        return TensorInfo(
            name=value.name,
            dtype=onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name,
            shape=tuple(size.dim_value for size in kind.shape.dim),
        )

    return info(graph.input[0]), info(graph.output[0])
