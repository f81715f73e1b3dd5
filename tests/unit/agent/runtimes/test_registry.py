"""Names of runtimes: those of the built-in drivers are reserved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.agent.runtimes import registry
from edgebench.agent.runtimes.onnx import OnnxRuntime


class Impostor(OnnxRuntime):
    """A third-party driver with the name of a built-in one."""


class Foreign(OnnxRuntime):
    """A third-party driver with a name of its own."""

    name = "foreign"


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are installed."""

    def entry_points(group: str) -> list[Any]:
        assert group == registry.ENTRY_POINT_GROUP
        return [SimpleNamespace(load=lambda kind=kind: kind) for kind in (Impostor, Foreign)]

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_third_party_driver_does_not_replace_a_built_in_one() -> None:
    """Otherwise results under the name of a known runtime could come from any code."""
    assert type(registry.known_runtimes()["onnx"]) is OnnxRuntime
    assert type(registry.find_runtime("onnx")) is OnnxRuntime


def test_third_party_driver_is_found_by_its_own_name() -> None:
    """Otherwise only built-in runtimes could be measured."""
    assert list(registry.known_runtimes()) == ["litert", "tflite", "onnx", "foreign"]
    assert type(registry.find_runtime("foreign")) is Foreign
