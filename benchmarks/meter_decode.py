"""Decoding rate of meter data, compared with other clients of the same meter.

    python benchmarks/meter_decode.py [--rounds 7] [--short] [--patience 0]

Each side decodes the same words in the same chunks, in the same process; the order of the sides in
a round is random. Ratios are computed within a round.

    ppk2-api    its parser for a chunk, called as its users call it
    ppk2lab     its parser, conversion and filter, called as its own capture calls them

Both do the same work as edgebench: framing, calibration, a filter after range switches, logic
inputs. For slower meters, edgebench is compared with naive loops that check nothing
(obvious_meters.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import (
    add_patience,
    claim,
    claims_table,
    interleave,
    machine,
    paired_ratios,
    parse,
    report,
    seconds_of,
    spread,
)
from numpy.typing import NDArray
from obvious_meters import (
    Stream,
    binary_stream,
    ina_stream,
    loop_binary,
    loop_ina,
    loop_text,
    ours_ina,
    ours_lpm01a,
    text_stream,
)
from ppk2_api.ppk2_api import PPK2_API
from ppk2lab.calibration import Calibration as OtherCalibration
from ppk2lab.calibration import RangeCalibration, SpikeFilter
from ppk2lab.protocol.samples import SampleBlock, SampleStreamParser

from edgebench.meters.base import Packet
from edgebench.meters.ppk2.decoder import Ppk2Decoder, Ppk2Settings
from edgebench.meters.ppk2.metadata import Calibration

CHUNK_BYTES = 40_000
"""Bytes of a chunk: the data of a tenth of a second."""
SAMPLES = 200_000
RUN_LENGTH = 1000
"""Mean number of samples between two range switches."""
BARS = {"ppk2-api": 20.0, "ppk2lab": 4.0}
"""Maps each compared program to the bar for the ratio of edgebench's decoding rate to the program's
rate."""
CALIBRATION = Calibration(
    r=(1003.35, 101.55, 10.31, 0.9575, 0.0522),
    o=(162.5, 77.5, 75.6, 65.2, 90.1),
    gs=(0.0031, 0.1, 0.5, 1.1, 6.5),
    gi=(0.9998, 0.999, 1.0002, 0.998, 0.9987),
    s=(4.8e-08, 5e-07, 5e-06, 7e-05, 0.0003),
    i=(-3e-08, -2.5e-07, -2.4e-06, -2.2e-05, -0.0009),
    ug=(1.0, 1.0, 1.0, 1.0, 1.0),
)
FIELDS = {"R": "r", "GS": "gs", "GI": "gi", "O": "o", "S": "s", "I": "i", "UG": "ug"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    add_patience(parser)
    options = parse(parser, smoke={"rounds": 1}, rounds=3)
    began = machine()
    parts = chunks(words(SAMPLES))
    sides: dict[str, Callable[[], float]] = {
        "edgebench": lambda: seconds_of(lambda: ours(parts)),
        "ppk2-api": lambda: seconds_of(lambda: ppk2_api(parts)),
        "ppk2lab": lambda: seconds_of(lambda: ppk2lab(parts)),
    }
    found = interleave(sides, options.rounds, patience_s=options.patience)
    claims = []
    for name, seconds in found.items():
        rate = spread([SAMPLES / 1e6 / s for s in seconds])
        claims.append(claim(f"PPK2 by {name}, million samples/s", rate.text()))
        if name in BARS:
            ratio = paired_ratios(seconds, found["edgebench"])
            is_met = ratio.median >= BARS[name]
            text = f"PPK2, edgebench / {name}"
            claims.append(claim(text, ratio.text(1), f"≥ {BARS[name]:.0f}", is_met))
    report("Decoding meters", [claims_table([*claims, *slower_meters(options)])], began)


def slower_meters(options: argparse.Namespace) -> list[list[str]]:
    """Claims about edgebench's decoders of slower meters, compared with naive loops."""
    binary, text, ina = binary_stream(3), text_stream(20), ina_stream(300)
    pairs: dict[str, tuple[Stream, Callable[[], object], Callable[[], object]]] = {
        "LPM01A, binary": (
            *(binary, lambda: ours_lpm01a(binary, is_ascii=False), lambda: loop_binary(binary)),
        ),
        "LPM01A, text": (
            *(text, lambda: ours_lpm01a(text, is_ascii=True), lambda: loop_text(text)),
        ),
        "INA226 by hwmon": (ina, lambda: ours_ina(ina), lambda: loop_ina(ina)),
    }
    claims = []
    for name, (stream, ours_of_it, loop) in pairs.items():
        sides = {"ours": partial(seconds_of, ours_of_it), "loop": partial(seconds_of, loop)}
        found = interleave(sides, options.rounds, patience_s=options.patience)
        rate = spread([stream.sample_count / 1e6 / s for s in found["ours"]])
        ratio = paired_ratios(found["loop"], found["ours"])
        claims.append(claim(f"{name}, million samples/s", rate.text(3)))
        claims.append(claim(f"{name}, edgebench / naive loop", ratio.text(1)))
    return claims


def words(count: int) -> bytes:
    """Words of a stream that switches its range after `RUN_LENGTH` samples on average."""
    draw = np.random.default_rng(1)
    begins = np.where(draw.random(count) < 1 / RUN_LENGTH, np.arange(count), 0)
    ranges = draw.integers(0, 5, count)[np.maximum.accumulate(begins)]
    made: NDArray[np.uint32] = (
        draw.integers(100, 16000, count)
        | ranges << 14
        | (np.arange(count) % 64) << 18
        | draw.integers(0, 256, count) << 24
    ).astype("<u4")
    return made.tobytes()


def chunks(data: bytes) -> list[bytes]:
    """Split data into chunks like those that a port delivers."""
    return [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]


def ours(parts: list[bytes]) -> None:
    """Decode with edgebench."""
    decoder = Ppk2Decoder(Ppk2Settings(calibration=CALIBRATION, supply_v=3.3, is_source=True))
    for part in parts:
        decoder.feed(Packet(0, 0, part))


def ppk2_api(parts: list[bytes]) -> None:
    """Decode with ppk2-api; the decoding object is created without a port."""
    api: Any = PPK2_API.__new__(PPK2_API)
    api.ser = None
    api.modifiers = {
        key: {str(r): value for r, value in enumerate(getattr(CALIBRATION, name))}
        for key, name in FIELDS.items()
    }
    api.current_vdd, api.adc_mult = 3300, 1.8 / 163840
    api.MEAS_ADC, api.MEAS_RANGE = api._generate_mask(14, 0), api._generate_mask(3, 14)
    api.MEAS_LOGIC = api._generate_mask(8, 24)
    api.rolling_avg = api.rolling_avg4 = api.prev_range = None
    api.consecutive_range_samples = api.after_spike = 0
    api.spike_filter_alpha, api.spike_filter_alpha5, api.spike_filter_samples = 0.18, 0.06, 3
    api.remainder = {"sequence": b"", "len": 0}
    for part in parts:
        api.get_samples(part)


def ppk2lab(parts: list[bytes]) -> None:
    """Decode with ppk2lab."""
    calibration = OtherCalibration(
        [
            RangeCalibration(**{name: getattr(CALIBRATION, name)[r] for name in FIELDS.values()})
            for r in range(5)
        ],
        vdd_mv=3300,
    )
    parser, spikes = SampleStreamParser(), SpikeFilter()
    for part in parts:
        for event in parser.feed(part):
            if isinstance(event, SampleBlock):
                spikes.apply(calibration.convert_block(event), event.ranges)


if __name__ == "__main__":
    main()
