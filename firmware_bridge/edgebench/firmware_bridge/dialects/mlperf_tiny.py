"""MLPerf Tiny's protocol in performance and energy mode, with edgebench's own commands.

A timestamp is a line in performance mode, and a pulse on a pin in energy mode. As this is the only
difference, a single dialect parses the lines of both modes. The board reports its mode when it
starts.

Source: mlcommons/tiny @ 1afd2c98, benchmark/api. In addition:

- The two lines without a prefix that mean a wrong size: internally_implemented.cpp (`db load`) and
  the reference submissions (th_load_tensor).
- Failed inferences: TensorFlow Lite Micro (`Invoke failed`), and th_infer of the submissions in
  mlcommons/tiny_results_v1.0 and _v1.3.
- Commands that begin with x-: docs/firmware-protocol.md.
"""

from __future__ import annotations

import re

from edgebench.firmware_bridge.dialects import events
from edgebench.firmware_bridge.dialects.events import Quirk
from edgebench.firmware_bridge.dialects.lines import LineDialect, LinePattern, line_pattern

CHUNK_BYTES = 31
"""Number of input bytes per `db` command, as in MLPerf Tiny's runner. By EEMBC's rule, at most one
command or 64 bytes may be sent before the next `m-ready`."""
_BRACKET = re.compile(r"\[?([^\[\]]*)\]?")

BEGINNINGS = (
    r"m-(?:ready|name-|profile-|model-|timestamp-mode-|lap-us-|init-done|load-done|buffer-|"
    r"warmup-|infer-|results-|info-|crc-|out-\[|cycles-|cycle-|operators-|operator-|frames-|\[Expecting)|(?<![a-z])e-\["
)
"""Pattern of texts that occur only at the beginning of a board's line, never inside it."""


def _named(match: re.Match[str], quirks: set[Quirk]) -> events.BoardName:
    """Parse the board's name in any of the known formats."""
    if not re.fullmatch(r"name-dut-\[[^\]]+\]", match[0]):
        quirks.add(Quirk.NAME_FORMAT)
    bracket = _BRACKET.fullmatch(match[1])
    return events.BoardName((bracket[1] if bracket else match[1]).strip())


def numbers(text: str, quirks: set[Quirk]) -> tuple[float, ...]:
    """Parse a list of numbers; a trailing comma is accepted, and added to `quirks`."""
    parts = [part.strip() for part in text.split(",")]
    if parts and not parts[-1]:
        quirks.add(Quirk.TRAILING_COMMA)
        parts.pop()
    return tuple(float(part) for part in parts)


_NUMBER = r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|(?i:nan|inf))"
NUMBERS = rf"\s*{_NUMBER}(?:\s*,\s*{_NUMBER})*\s*,?\s*"
"""Pattern of a list of decimal numbers."""

_FAILURES = (
    r"\b(?:invoke|allocatetensors)(?:\(\))? failed\b|\bfailed to (?:invoke|prepare)\b|"
    r"\bth_infer\b.{0,80}\b(?:error|fail(?:ed|ure)?)\b|\binference (?:error|failed|failure)\b|"
    r"^(?:error|fail(?:ed|ure)?|fehler)\b"
)
"""Pattern of lines about a failed inference. They contain a message of the runtime, or begin with
an error, as `th_infer` prints it. Lines about unrelated errors do not match. Tasks of an operating
system print them, and begin them with a time, a level or a name. Examples are
`I (1234) wifi: disconnect reason, error code 0x0` (ESP-IDF), and
`[00:00:01.234,567] <err> net_dhcpv4: failed` (Zephyr)."""
_COMPLAINT = r"\b(?:error|fail(?:ed|ure)?|fehler)\b"
_NO_FAILURE = r"\b(?:no|squared?|absolute) errors?\b|\berrors?\s*[:=]\s*(?:0(?!\.)|none|ok)\b"
"""Pattern of texts that contain "error" but report no failure, such as a status without an error,
or the mean squared error of the model ad01."""

_FAULTS = (
    r"e-\[fault\b|\bguru meditation error\b|\bzephyr fatal error\b|\*{3} panic \*{3}|"
    r"\*{3,} (?:bus|hard|usage|mpu|secure) fault\b|\bmbedos (?:error info|fault handler)\b|"
    r"^\W*hard ?fault\b(?! handler)"
)
"""Pattern of the fault handlers of edgebench's firmware, ESP-IDF, Zephyr, the Pico SDK and Mbed OS,
and of the usual text of other firmware."""
FAULT_LINE = re.compile(rf"^(?!m-).*?(?:{_FAULTS}).*", re.IGNORECASE | re.MULTILINE)
"""Pattern that finds the line of a fault handler in a text of several lines."""

MLPERF_TINY: tuple[LinePattern, ...] = (
    line_pattern(r"ready", lambda _, __: events.ReplyEnd()),
    # EEMBC's monitor: name-CLASS-[NAME]; `io` is the class of its interface board.
    line_pattern(r"name-io(?:-?man(?:ager)?)?-\[(.*)\]", lambda m, _: events.InterfaceName(m[1])),
    line_pattern(r"name-(?:dut-)?(.+)", _named),
    line_pattern(r"profile-\[(.*)\]", lambda m, _: events.FirmwareProfile(m[1])),
    line_pattern(r"model-\[(.*)\]", lambda m, _: events.ModelName(m[1].strip())),
    line_pattern(
        r"timestamp-mode-(energy|performance)",
        lambda m, _: events.TimestampMode(m[1] == "energy"),
    ),
    line_pattern(r"init-done", lambda _, __: events.InitEnd()),
    # Firmware whose printf lacks unsigned numbers prints a sign after 35.8 minutes, and firmware
    # that stores the time as a float prints a fraction.
    line_pattern(r"lap-us-(-?\d{1,20})(?:\.\d*)?", lambda m, _: events.LapTime(int(m[1]))),
    line_pattern(r"\[Expecting (\d{1,10}) bytes\]", lambda m, _: events.ExpectedSize(int(m[1]))),
    line_pattern(r"load-done", lambda _, __: events.LoadEnd()),
    line_pattern(
        r"buffer-([0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2})*)",
        lambda m, _: events.BufferBytes(bytes.fromhex(m[1].replace("-", ""))),
    ),
    line_pattern(r"warmup-start-(\d{1,10})", lambda m, _: events.WarmupBegin(int(m[1]))),
    line_pattern(r"warmup-done", lambda _, __: events.WarmupEnd()),
    line_pattern(r"infer-start-(\d{1,10})", lambda m, _: events.InferenceBegin(int(m[1]))),
    line_pattern(r"infer-done", lambda _, __: events.InferenceEnd()),
    line_pattern(rf"results-\[({NUMBERS})\]", lambda m, q: events.ModelOutputs(numbers(m[1], q))),
    line_pattern(
        rf"(?i)(?!m-)(?=.*?(?:{_FAULTS})).*", lambda m, _: events.FaultText(m[0]), has_prefix=False
    ),
    line_pattern(
        r"e-\[(.*)", lambda m, _: events.ErrorReply(m[1].removesuffix("]")), has_prefix=False
    ),
    line_pattern(
        r"Supplied buffer size \d+ exceeds maximum.*|Input db has .*expected.*",
        lambda m, _: events.InputMismatch(m[0]),
        has_prefix=False,
    ),
    line_pattern(r"\[(No input loaded: zeros)\]", lambda m, _: events.InputMismatch(m[1])),
    line_pattern(r"info-([a-z_]+)-\[(.*)\]", lambda m, _: events.InfoItem(m[1], m[2])),
    line_pattern(
        r"crc-\[([0-9a-f]{8}),(\d{1,10})\]", lambda m, _: events.BufferCrc(int(m[1], 16), int(m[2]))
    ),
    line_pattern(
        r"out-\[((?:[0-9a-f]{2})+)\]", lambda m, _: events.OutputBytes(bytes.fromhex(m[1]))
    ),
    line_pattern(
        r"cycles-\[(\d{1,20}),(\d{1,10}),(\d{1,10})\]",
        lambda m, _: events.CyclesHead(int(m[1]), int(m[2]), int(m[3])),
    ),
    line_pattern(
        r"cycle-\[(\d{1,20}(?:,\d{1,20})*)\]",
        lambda m, _: events.CyclesPart(tuple(int(one) for one in m[1].split(","))),
    ),
    line_pattern(
        r"operators-\[(\d{1,20}),(\d{1,10}),(\d{1,10}),(\d{1,10})\]",
        lambda m, _: events.OperatorsHead(int(m[1]), int(m[2]), int(m[3]), int(m[4])),
    ),
    line_pattern(
        r"operator-\[([A-Z0-9_]{1,40}),(\d{1,10})\]",
        lambda m, _: events.OperatorTicks(m[1], int(m[2])),
    ),
    line_pattern(
        r"frames-\[(\d{1,5}),(\d{1,5})\]",
        lambda m, _: events.FrameModeReply(int(m[1]), int(m[2])),
    ),
    line_pattern(
        r"[\w ]*[Ii]nterface [Bb]oard[^:<>\[\]]*",
        lambda m, _: events.InterfaceName(m[0]),
        has_prefix=False,
    ),
    line_pattern(
        rf"(?i)(?!m-)(?!.*(?:{_NO_FAILURE}))(?=.*?(?:{_FAILURES})).*",
        lambda m, _: events.FailureText(m[0]),
        has_prefix=False,
    ),
    line_pattern(
        rf"(?i)(?!m-)(?!.*(?:{_NO_FAILURE})).*{_COMPLAINT}.*",
        lambda m, _: events.ComplaintText(m[0]),
        has_prefix=False,
    ),
)


def mlperf_tiny() -> LineDialect:
    """Create the dialect of MLPerf Tiny's reference API, for performance and energy mode."""
    return LineDialect("mlperf_tiny", MLPERF_TINY, BEGINNINGS, chunk_bytes=CHUNK_BYTES)
