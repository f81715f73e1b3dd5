"""The dialect of MLPerf Tiny's streaming wake-word firmware.

It ends its replies in `m-ready` as well, but repeats every command in a line of its own, has errors
without a prefix, counts the bytes of a load, and prints no timestamp. The text of `help` ends in a
terminator of ours, a stray `%`, before `m-ready`.

Source: mlcommons/tiny, benchmark/reference_submissions/streaming_wakeword (command handling); the
firmware cannot run `infer`: it classifies what it hears between `start` and `stop`.
"""

from __future__ import annotations

from edgebench.firmware_bridge.dialects import events as said
from edgebench.firmware_bridge.dialects.lines import LineDialect, line_pattern
from edgebench.firmware_bridge.dialects.mlperf_tiny import (
    BEGINNINGS,
    CHUNK_BYTES,
    MLPERF_TINY,
    NUMBERS,
    numbers,
)

STREAMING_MODELS = ("sww01", "strww01")
"""Models of firmware that speaks this dialect."""
MAX_CHARS = 1027
"""Its buffer has 1028 characters."""

_STREAMING = (
    line_pattern(r"Received command: (.*)", lambda m, _: said.CommandEcho(m[1]), has_prefix=False),
    line_pattern(
        r"Error:? (.*)|(Unrecognized command.*|Empty command.*)",
        lambda m, _: said.ErrorReply(m[1] or m[2]),
        has_prefix=False,
    ),
    line_pattern(
        r"Expecting (\d{1,10}) bytes", lambda m, _: said.ExpectedSize(int(m[1])), has_prefix=False
    ),
    line_pattern(
        r"(\d{1,10}) bytes received", lambda m, _: said.LoadProgress(int(m[1])), has_prefix=False
    ),
    line_pattern(
        rf"(?:m-activations-|Output = )\[({NUMBERS})\]",
        lambda m, q: said.ModelOutputs(numbers(m[1], q)),
        has_prefix=False,
    ),
)


def streaming() -> LineDialect:
    """Dialect of the streaming wake-word firmware."""
    return LineDialect(
        "mlperf_tiny_streaming",
        (*_STREAMING, *MLPERF_TINY),
        rf"Received command: |{BEGINNINGS}",
        chunk_bytes=CHUNK_BYTES,
        max_chars=MAX_CHARS,
    )
