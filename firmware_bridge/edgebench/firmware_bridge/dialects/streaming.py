"""The dialect of MLPerf Tiny's streaming wake-word firmware.

As in MLPerf Tiny's other firmware, a reply ends with `m-ready`. But this firmware repeats every
command on a separate line, prints errors without a prefix, reports the received bytes of a load,
and prints no timestamps. The text of `help` ends with a stray command terminator, `%`, before
`m-ready`. The command `infer` does not exist, because the firmware classifies audio continuously
between `start` and `stop`.

    start%   →  Received command: start
                Listening for I2S data ...
                                                a pulse on the timestamp pin
                DMA receive initiated.
                m-ready
    stop%    →  Received command: stop
                                                a pulse on the timestamp pin
                Streaming stopped.
                target activations:
                [-128, -127, … ,                16 per line, for each frame since `start`
                -125
                ]
                m-ready

The interface board in front of the board plays the sound. The board holds a pin high while it
processes a frame, and the interface board records the times of both edges of this pin. The times
are counts of 10 µs, although the printed text states seconds.

    play FILE%          →  Attempting to play FILE; at the end of the sound, either "succeeded." or
                           "Error playing file. …"; m-ready. Before 2025-07 (904de6f), only
                           Playing FILE and m-ready
    record_detections%  →  Now recording detections, m-ready; the counter starts again at 0
    print_detections%   →  Detection Timestamps (ms), each on a line, m-ready
    print_dutycycle%    →  Duty cycle start times (s), then Duty cycle stop times (s), each followed
                           by lines of numbers, m-ready on the last of these lines

Source: mlcommons/tiny @ 1afd2c98, benchmark/reference_submissions/streaming_wakeword
(sww_ref_util), benchmark/interface (InterfaceMenu, DeviceUnderTest), benchmark/runner
(streaming_ww_utils).
"""

from __future__ import annotations

from edgebench.firmware_bridge.dialects import events
from edgebench.firmware_bridge.dialects.lines import LineDialect, line_pattern
from edgebench.firmware_bridge.dialects.mlperf_tiny import (
    BEGINNINGS,
    CHUNK_BYTES,
    MLPERF_TINY,
    NUMBERS,
    numbers,
)

STREAMING = "mlperf_tiny_streaming"
"""Name of the dialect of streaming wake-word firmware."""
MAX_CHARS = 1027
"""Maximum length of a command without its terminator; the firmware's buffer has 1028 bytes."""
EDGES_MAX_BYTES = 1 << 20
"""Maximum length of a line in bytes. Some interface boards print all edges on a single line; these
are 37 500 edges of ten characters for a sound of 20 minutes."""

_LIST = (
    line_pattern(
        r"\[?\s*(-?\d{1,10}(?:\s*,\s*-?\d{1,10})*)\s*,?\s*\]?",
        lambda m, _: events.NumberList(tuple(int(one) for one in m[1].split(","))),
        has_prefix=False,
    ),
    line_pattern(
        r"\[|\]|\[\s*\]|=+ Done =+", lambda _, __: events.NumberList(()), has_prefix=False
    ),
)
"""Patterns for a list that spans several lines; some firmware prints the list's end twice."""
_STREAMING = (
    line_pattern(
        r"Received command: (.*)", lambda m, _: events.CommandEcho(m[1]), has_prefix=False
    ),
    line_pattern(
        r"Error:? (.*)|(Unrecognized command.*|Empty command.*)",
        lambda m, _: events.ErrorReply(m[1] or m[2]),
        has_prefix=False,
    ),
    line_pattern(
        r"(I2S Rx currently in progress.*)", lambda m, _: events.ErrorReply(m[1]), has_prefix=False
    ),
    line_pattern(
        r"Expecting (\d{1,10}) bytes", lambda m, _: events.ExpectedSize(int(m[1])), has_prefix=False
    ),
    line_pattern(
        r"(\d{1,10}) bytes received", lambda m, _: events.LoadProgress(int(m[1])), has_prefix=False
    ),
    line_pattern(
        rf"(?:m-activations-|Output = )\[({NUMBERS})\]",
        lambda m, q: events.ModelOutputs(numbers(m[1], q)),
        has_prefix=False,
    ),
    line_pattern(
        r"Listening for I2S data.*", lambda _, __: events.ListeningBegin(), has_prefix=False
    ),
    line_pattern(r"Streaming stopped\.", lambda _, __: events.ListeningEnd(), has_prefix=False),
    line_pattern(r"target activations:", lambda _, __: events.ActivationsHead(), has_prefix=False),
    *_LIST,
)
_INTERFACE = (
    line_pattern(
        r"(?:Playing|Attempting to play) (.*)",
        lambda m, _: events.SoundBegin(m[1]),
        has_prefix=False,
    ),
    line_pattern(r"succeeded\.", lambda _, __: events.SoundEnd(), has_prefix=False),
    line_pattern(r"Error playing file.*", lambda m, _: events.SoundEnd(m[0]), has_prefix=False),
    line_pattern(r"Now recording detections", lambda _, __: events.RecordBegin(), has_prefix=False),
    line_pattern(
        r"Detection Timestamps \(ms\)", lambda _, __: events.DetectionsHead(), has_prefix=False
    ),
    line_pattern(
        r"Duty cycle (start|stop) times \(s\)",
        lambda m, _: events.ProcessingHead(is_end=m[1] == "stop"),
        has_prefix=False,
    ),
    *_LIST,
)


def streaming() -> LineDialect:
    """Create the dialect of the streaming wake-word firmware."""
    return LineDialect(
        STREAMING,
        (*_STREAMING, *MLPERF_TINY),
        rf"Received command: |Streaming stopped|target activations:|{BEGINNINGS}",
        chunk_bytes=CHUNK_BYTES,
        max_chars=MAX_CHARS,
    )


def interface_board() -> LineDialect:
    """Create the dialect for commands to the interface board itself, which plays the sound."""
    return LineDialect(
        "interface_board",
        (*_INTERFACE, *MLPERF_TINY),
        rf"Duty cycle |{BEGINNINGS}",
        chunk_bytes=CHUNK_BYTES,
        line_max_bytes=EDGES_MAX_BYTES,
    )
