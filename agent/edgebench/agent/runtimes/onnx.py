"""Driver of onnxruntime."""

from __future__ import annotations

import importlib
import os
from typing import Any

from edgebench.agent.runtimes.absent import why_absent
from edgebench.agent.runtimes.library import library_facts, library_version
from edgebench.agent.runtimes.onnx_file import inspect_onnx
from edgebench.agent.runtimes.onnx_model import PROVIDER_SUFFIX, OnnxModel, short_provider
from edgebench.agent.runtimes.onnx_profile import FILE_PREFIX
from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import DelegateRefused, ModelRefused, RuntimeUnavailable
from edgebench.protocol.runtime import LoadOptions, MissingRuntime, UsableRuntime

INSTALL = install_command("onnx")
_LOG_ERRORS_ONLY = 3
"""Log level for errors only, because old model files cause hundreds of warnings. Source:
onnxruntime, `OrtLoggingLevel`."""

_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""Configuration entry by which a session records the execution provider of each operator. The entry
has no measurable cost (20000 operators take 390 ms with and without it). Versions of the library
that do not support the entry ignore it. Source: onnxruntime_session_options_config_keys.h."""

# From 1.29 on, the library uploads which models it runs and stores an id of the device, unless
# telemetry is disabled before its import. Source: microsoft/onnxruntime#27379.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


class OnnxRuntime:
    """Driver of ONNX Runtime, which creates a session for each model."""

    name = "onnx"
    formats = ("onnx",)
    no_profiler = None
    module = "onnxruntime"

    def probe(self) -> UsableRuntime | MissingRuntime:
        """Import the library, and list its execution providers."""
        try:
            library = importlib.import_module(self.module)
            providers = tuple(map(short_provider, library.get_available_providers()))
            facts = library_facts(self.module)
        except ImportError as exc:
            return why_absent("onnxruntime", exc, INSTALL, module=self.module)
        except Exception as exc:  # a broken binary may raise anything
            return MissingRuntime(f"onnxruntime fails to import: {library_line(exc)}")
        return UsableRuntime(facts.version, providers, facts.distribution, facts.path)

    def import_library(self) -> str:
        """Import the library and return its version."""
        try:
            importlib.import_module(self.module)
            return library_version(self.module)
        except ImportError as exc:
            absent = why_absent("onnxruntime", exc, INSTALL, module=self.module)
            raise RuntimeUnavailable(absent.reason) from exc

    def load(self, path: str, options: LoadOptions) -> OnnxModel:
        """Create a session for a model file."""
        facts = inspect_onnx(path)
        library = importlib.import_module("onnxruntime")
        settings = _settings(library, options)
        providers = _providers(library, None if options.is_reference else options.delegate)
        try:
            session = library.InferenceSession(path, settings, providers=providers)
        except Exception as exc:  # onnxruntime's exceptions share no base class
            raise ModelRefused(f"onnx refused the model: {library_line(exc)}") from exc
        return OnnxModel(library, session, facts, options)


def _settings(library: Any, options: LoadOptions) -> Any:
    settings = library.SessionOptions()
    settings.inter_op_num_threads = 1
    settings.log_severity_level = _LOG_ERRORS_ONLY
    settings.intra_op_num_threads = 1 if options.is_reference else options.threads
    settings.add_session_config_entry(_RECORD_ASSIGNMENT, "1")
    settings.enable_profiling = options.is_profiled
    settings.profile_file_prefix = FILE_PREFIX
    if options.is_reference:
        settings.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


def _providers(library: Any, delegate: str | None) -> list[str]:
    available = {short_provider(name): name for name in library.get_available_providers()}
    if delegate is None:
        return [available["cpu"]]
    if delegate.lower().removesuffix(PROVIDER_SUFFIX.lower()) not in available:
        raise DelegateRefused(
            f"execution provider {delegate!r} is not in this onnxruntime; "
            f"available: {', '.join(available)}"
        )
    wanted = available[delegate.lower().removesuffix(PROVIDER_SUFFIX.lower())]
    return list(dict.fromkeys([wanted, available["cpu"]]))
