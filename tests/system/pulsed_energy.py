"""Energy of a board in energy mode, again and again: by hand, as 20 runs take minutes.

    python tests/system/pulsed_energy.py lpm01a             # behind its interface board
    python tests/system/pulsed_energy.py ppk2 --load 4      # with four busy processes
    python tests/system/pulsed_energy.py lpm01a --duration 55 --count 3     # windows of 11 s

Each run has a line; the last line states how many of them were right.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.pulse_bench import pulse_bench

MODEL = "digits_int8.tflite"
BUSY = [sys.executable, "-c", "while True: pass"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("meter", choices=["lpm01a", "ppk2"])
    parser.add_argument("--count", type=int, default=20, help="runs")
    parser.add_argument("--duration", type=float, default=10.0, help="of five windows, seconds")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside them")
    options = parser.parse_args()
    right_count = 0
    is_behind_interface = options.meter == "lpm01a"
    with ExitStack() as stack:
        for _ in range(options.load):
            stack.callback(subprocess.Popen(BUSY).kill)
        bench = stack.enter_context(pulse_bench(is_behind_interface=is_behind_interface))
        for number in range(options.count):
            (stored,) = bench.host.lab.bench(
                MODEL,
                on=[bench.device],
                runs=1,
                meter=bench.new_lpm01a() if is_behind_interface else bench.ppk2,
                duration_s=options.duration,
                max_query_count=10**9,
            )
            energy = stored.result.metrics.energy
            assert energy is not None
            errors = bench.errors_of(energy)
            right_count += not errors
            power_mw = 1e3 * (energy.power_w_mean or 0.0)
            gross_uj = 1e6 * (energy.gross_j_per_inference or 0.0)
            within_uj = 1e6 * (energy.u95_absolute_j or 0.0)
            line = f"{power_mw:.4f} mW, {gross_uj:.4f} µJ ± {within_uj:.2g}"
            print(f"{number + 1}: {line}: {'; '.join(errors) or 'right'}", flush=True)
    print(f"{right_count} of {options.count} right")
    return 0 if right_count == options.count else 1


if __name__ == "__main__":
    sys.exit(main())
