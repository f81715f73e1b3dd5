"""`edgebench meters`: list, info, selftest, record, import; on a made-up PPK2."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import Host, wait_until
from support.commands import Run, Said
from support.powercap import Counter
from support.ppk2 import Faults, Ppk2Emulator, constant
from support.ppk2_files import write_ppk2
from support.undisturbed import undisturbed

from edgebench.host.store.power_file import PowerFile
from edgebench.meters.registry import DRIVERS
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.errors import MeasurementError

CHANNEL = "current"
MEAN_W = 10e-3 * 3.3
MANY_LOST = Faults(lost_words=tuple((at, 50) for at in range(5_000, 60_000, 5_000)))


@pytest.fixture
def ppk2() -> Iterator[Ppk2Emulator]:
    """An emulated PPK2 that reads 10 mA all the time."""
    with Ppk2Emulator(waveform=constant(10e-3)) as emulator:
        yield emulator


def name(emulator: Ppk2Emulator) -> str:
    """The names of the meters as users write them."""
    return f"ppk2:{emulator.path},supply=3.3"


def test_list_shows_each_driver_and_why_it_is_not_there(edgebench: Run) -> None:
    """Otherwise a newcomer would not learn which meters exist, or would see a traceback."""
    said = edgebench("meters")
    assert said.code == 0
    assert "Nordic Power Profiler Kit II" in said.out
    assert "no instrument with USB id 1915:c00a is connected" in said.out
    plain = json.loads(edgebench("meters", "list", "--json").out)["meters"]
    assert "reason" in plain["ppk2"]


def test_options_of_each_meter_are_told_where_somebody_looks(edgebench: Run) -> None:
    """Otherwise options would appear only in the help of another action, or on no page."""
    told = edgebench("meters", "--help").out
    assert "edgebench meters --help" in edgebench("meters").err
    words = " ".join(edgebench("bench", "--help").out.split())
    assert "edgebench meters --help their options" in words
    words = " ".join(edgebench("deploy", "--help").out.split())
    assert "edgebench meters --help lists the options of each" in words
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "meters.md").read_text() + (docs / "instruments.md").read_text()
    for meter, driver in DRIVERS.items():
        assert re.sub(r"\s", "", f"{meter}{driver.usage}") in re.sub(r"\s", "", told)
        for option in re.findall(r"\[?,(\w+)", driver.usage):
            assert f"`{option}`" in page, f"{option} of {meter}"


def test_info_says_what_the_meter_is(edgebench: Run, ppk2: Ppk2Emulator) -> None:
    """Otherwise only its maker would know the uncertainty of a meter."""
    said = edgebench("meters", "info", name(ppk2))
    assert said.code == 0
    for words in ("Power Profiler Kit II", "100,000 samples/s", "gain", "typical"):
        assert words in said.out, words
    assert re.search(r"gain +±15 % \(rectangular\) +range 4 ", said.out)
    assert re.search(r"voltage +±1 % \(rectangular\) +all ranges ", said.out)
    assert re.search(r"resolution +±2e-07 A \(rectangular\) +range 0 ", said.out)
    assert re.search(r"shortest window +1\.00 ms", said.out)
    assert re.search(r"current +range 0, to 50\.0 µA \(assumed, approximate range", said.out)
    assert re.search(r"current +range 4, to 1\.00 A \(assumed", said.out)
    plain = json.loads(edgebench("meters", "info", name(ppk2), "--json").out)
    assert plain["facts"]["calibration"]["r"][4] == 0.0522
    limits = plain["capability"]["current_limits"]
    assert [limit["limit_a"] for limit in limits] == [50e-6, 500e-6, 5e-3, 60e-3, 1.0]


def test_record_prints_the_energy_and_keeps_everything(
    edgebench: Run, ppk2: Ppk2Emulator, tmp_path: Path
) -> None:
    """Otherwise the number would be printed, and the data behind it lost."""
    folder = tmp_path / "session"
    said = edgebench("meters", "record", name(ppk2), "--duration", "1s", "--output", str(folder))
    assert said.code == 0, said.err
    assert "33.0 mW" in said.out
    assert str(folder) in said.err
    file = PowerFile.open(folder)
    [group] = file.facts.groups
    begin_ns, end_ns = group.first_ns, group.last_ns
    assert (end_ns - begin_ns) / 1e9 > 0.5
    whole_j = file.energy_j(CHANNEL, begin_ns, end_ns)
    assert whole_j == pytest.approx(MEAN_W * (end_ns - begin_ns) / 1e9, rel=0.001)
    middle = file.energy_j(CHANNEL, begin_ns + 10**8, begin_ns + 3 * 10**8)
    assert middle == pytest.approx(MEAN_W * 0.2, rel=0.001)
    with pytest.raises(MeasurementError, match="beyond the meter's recording"):
        file.energy_j(CHANNEL, begin_ns, end_ns + 10**9)
    said = edgebench("meters", "record", name(ppk2), "--duration", "0.3s", "--json")
    plain = json.loads(said.out)
    assert plain["is_trusted"] is True
    assert plain["channels"][0]["power_w_mean"] == pytest.approx(MEAN_W, rel=0.001)


def test_every_energy_has_its_uncertainty(
    edgebench: Run, ppk2: Ppk2Emulator, tmp_path: Path
) -> None:
    """Otherwise 33 mJ would be read as 33.0, though the meter may be off by a tenth of that."""
    folder = tmp_path / "session"
    words = ("meters", "record", name(ppk2), "--duration", "0.5s", "--output", str(folder))
    said = edgebench(*words, "--json")
    [recorded] = json.loads(said.out)["channels"]
    # Two of the standard deviations of a gain of 10 % and a supply of 1 %, both rectangular.
    ratio = 2 * (0.1**2 + 0.01**2) ** 0.5 / 3**0.5
    assert recorded["u95_absolute_j"] / recorded["energy_j"] == pytest.approx(ratio, rel=0.01)
    of_mean = recorded["power_w_mean_u95_absolute"] / recorded["power_w_mean"]
    assert of_mean == pytest.approx(ratio, rel=0.01)
    of_peak = recorded["power_w_peak_u95_absolute"] / recorded["power_w_peak"]
    assert of_peak == pytest.approx(ratio, rel=0.01)
    path = str(folder / "power.parquet")
    said = edgebench("meters", "import", path, "--json")
    [imported] = json.loads(said.out)["channels"]
    assert imported["u95_absolute_j"] == pytest.approx(recorded["u95_absolute_j"])
    assert json.loads(said.out)["is_trusted"] is True
    said = edgebench("meters", "import", path)
    assert re.search(r"33\.0 mW ±12 %", said.out)
    assert "next: edgebench bench" not in said.err


@pytest.mark.parametrize(
    ("faults", "check", "words"),
    [
        (MANY_LOST, "loss", "limit 0.1 %"),
        (Faults(gone_after_s=0.4), "complete", "is gone"),
        (Faults(not_a_number=("S3",)), "calibration", "S3"),
    ],
)
def test_energy_of_a_bad_recording_is_refused(
    edgebench: Run, faults: Faults, check: str, words: str
) -> None:
    """Otherwise an untrustworthy number would be printed, or the reason would be missing."""
    with Ppk2Emulator(waveform=constant(10e-3), faults=faults) as emulator:
        said = edgebench("meters", "record", name(emulator), "--duration", "0.8s")
    assert said.code == 3, said.out
    [line] = [line for line in said.out.splitlines() if line.strip().startswith(check)]
    assert "fail" in line
    assert words in line
    assert "mW" not in said.out
    assert "no energy" in said.err


def test_saturation_is_a_reason_to_refuse(edgebench: Run) -> None:
    """Otherwise a clipped peak would be part of the mean."""
    peak = constant(1e4)  # ampere
    with Ppk2Emulator(waveform=peak) as emulator:
        said = edgebench("meters", "record", name(emulator), "--duration", "0.3s", "--json")
    plain = json.loads(said.out)
    outcomes = {one["id"]: one["outcome"] for one in plain["checks"]}
    assert (said.code, outcomes["saturation"], plain["channels"]) == (3, "fail", [])


def test_selftest_passes_on_a_good_meter(edgebench: Run, ppk2: Ppk2Emulator) -> None:
    """Otherwise a good meter would be refused, or the test would test nothing."""
    words = ("meters", "selftest", name(ppk2), "--duration", "5s")  # a clock needs 2 s

    def late(said: Said) -> str | None:
        """The emulator's thread waited for a CPU at one end of the recording."""
        failed = [one for one in json.loads(said.out)["checks"] if one["outcome"] != "pass"]
        return failed[0]["detail"] if [one["id"] for one in failed] == ["rate"] else None

    said = undisturbed(lambda: edgebench(*words, "--json"), late)
    plain = json.loads(said.out)
    assert said.code == 0, plain
    assert [one["id"] for one in plain["checks"]] == [
        *("complete", "calibration", "loss", "rate", "saturation", "direction")
    ]


def test_meter_whose_clock_is_wrong_fails_its_test(edgebench: Run) -> None:
    """Otherwise a trace stretched by half, with two thirds of the power, would go unnoticed."""
    faults = Faults(rate_error_ppm=-300_000.0)
    with Ppk2Emulator(faults=faults) as emulator:
        said = edgebench("meters", "selftest", name(emulator), "--json")
    outcomes = {one["id"]: one["outcome"] for one in json.loads(said.out)["checks"]}
    assert (said.code, outcomes["rate"]) == (3, "fail")


def test_error_of_the_synthetic_clock_fails_its_test(edgebench: Run) -> None:
    """Otherwise the documented way to try out a gate would not work."""
    words = ("meters", "selftest", "synthetic:constant,error=5000", "--duration", "2.8s")
    said = edgebench(*words)
    assert said.code == 3
    [line] = [line for line in said.out.splitlines() if line.strip().startswith("rate")]
    assert re.search(r"fail .* ppm against the host's clock over 2\.\d s, limit \d+ ppm", line)


def test_ctrl_c_keeps_what_was_recorded(edgebench: Run, ppk2: Ppk2Emulator, tmp_path: Path) -> None:
    """Otherwise an hour of recording would be lost with its last second."""
    folder = tmp_path / "session"
    spool = folder / "meter.spool"

    def press_ctrl_c() -> None:
        # The header is written at once; the packets reach the disk a buffer at a time.
        wait_until(lambda: spool.exists() and spool.stat().st_size > 120_000, "meter is recorded")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press_ctrl_c)
    thread.start()
    words = ("--duration", "100s", "--output", str(folder), "--json")
    said = edgebench("meters", "record", name(ppk2), *words)
    thread.join()
    [channel] = json.loads(said.out)["channels"]
    assert 0.1 < channel["duration_s"] < 100
    assert said.code == 130
    last = said.err.splitlines()[-1]
    assert re.fullmatch(rf"interrupted after \d+\.\d s of 100 s; kept in {folder}", last)
    assert (folder / "power.parquet").exists()


@pytest.mark.parametrize("action", ["record", "selftest"])
def test_recording_of_no_time_is_refused(edgebench: Run, host: Host, action: str) -> None:
    """Otherwise a directory would be made for nothing, or zero joules printed."""
    said = edgebench("meters", action, "synthetic", "--duration", "0s")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: --duration must be > 0 s, got 0\nhint: ")
    assert not list(host.folder.rglob("sessions"))


def test_record_says_what_it_kept_and_what_is_next(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the user would have to search for the files, or type an unquoted command."""
    folder = tmp_path / "session"
    words = ("--duration", "0.3s", "--output", str(folder))
    said = edgebench("meters", "record", "synthetic:constant", *words)
    assert said.err.splitlines() == [
        f"session: {folder} (meter.spool, power.parquet)",
        "next: edgebench bench MODEL --meter synthetic:constant",
    ]


def test_counter_of_a_processor_is_recorded(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise only one kind of meter would work."""
    counter = Counter(tmp_path)
    with counter.burning(5.0):
        said = edgebench("meters", "record", f"rapl:{tmp_path}", "--duration", "0.5s", "--json")
    assert said.code == 0, said.err
    [channel] = json.loads(said.out)["channels"]
    assert channel["name"] == "package-0"
    assert channel["energy_j"] > 0


def test_refused_recording_says_why_and_what_to_do(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the user would get a table of six checks, exit code 3, and no next step."""
    folder = tmp_path / "session"
    with Ppk2Emulator(waveform=constant(10e-3), faults=MANY_LOST) as emulator:
        words = ("meters", "record", name(emulator), "--duration", "0.8s", "--output", str(folder))
        recorded = edgebench(*words)
    for said in (recorded, edgebench("show", str(folder))):
        error, hint = [line for line in said.err.splitlines() if line.startswith(("err", "hint"))]
        assert re.match(r"error: no energy, because .*: loss: \d+ samples.*, limit 0\.1 %", error)
        assert "edgebench meters selftest METER" in hint
    said = edgebench("meters", "selftest", "synthetic:constant,error=50000", "--duration", "2.8s")
    error, hint = said.err.splitlines()
    assert re.match(r"error: the meter fails its self-test: rate: .* ppm .*, limit \d+", error)
    assert "edgebench meters selftest METER" in hint


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (("record", "synthetic", "--duration", "0s"), "record"),
        (("selftest", "agent:rapl"), "selftest"),
        (("import", "trace.csv", "--supply", "-3"), "import"),
        (("import", "trace.csv", "--supply", "3300mV"), "import"),
    ],
)
def test_hint_names_the_action_that_was_typed(
    edgebench: Run, words: tuple[str, ...], action: str
) -> None:
    """Otherwise an import would lead to the help of another action, without the option."""
    said = edgebench("meters", *words)
    assert said.code == 2
    hint = f"hint: see all arguments: edgebench meters {action} --help"
    assert said.err.splitlines()[-1] == hint


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("record", "wattson"), "unknown meter"),
        (("info", "ppk2:/dev/null,supply=x"), "supply must be a number"),
        (("record", "ppk2:/dev/nothing,supply=3.3"), "/dev/nothing"),
        (("selftest", "rapl:/nowhere"), "no RAPL zone"),
        (("selftest", "agent:rapl"), "which records only during runs"),
    ],
)
def test_wrong_meter_is_one_line_and_a_hint(
    edgebench: Run, words: tuple[str, ...], reason: str
) -> None:
    """A typing error in a meter's name is reported without a traceback."""
    said = edgebench("meters", *words)
    assert said.code == 2
    assert reason in said.err
    assert "hint: " in said.err
    assert "Traceback" not in said.err


def test_import_prints_what_record_prints(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise a file of another meter would be judged by other rules, or its origin lost."""
    path = tmp_path / "trace.csv"
    path.write_text("t_s,power_W\n0,2.0\n1.5,2.0\n")
    folder = tmp_path / "session"
    said = edgebench("meters", "import", str(path), "--output", str(folder))
    assert said.code == 0, said.err
    assert "3.00 J ±17 %" in said.out
    assert "gain error not stated: 15 % is assumed" in said.out
    assert [line.split()[:2] for line in said.out.splitlines() if " unknown " in line] == [
        ["calibration", "unknown"],
        ["loss", "unknown"],
        ["rate", "unknown"],
    ]
    header = PowerFile.open(folder).facts.header
    assert header.driver == "import"
    assert [term.kind for term in header.uncertainty] == [Kind.GAIN, Kind.TIMEBASE]
    assert header.facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert header.facts["file"] == "trace.csv"
    said = edgebench("meters", "import", str(path), "--json")
    plain = json.loads(said.out)
    assert plain["channels"][0]["energy_j"] == 3.0
    assert plain["is_trusted"] is None, "nothing is known of the meter"
    assert plain["verdict"]["state"] == "suspect"
    assert [one["id"] for one in plain["verdict"]["reasons"]] == ["sample_kind_not_stated"]


def test_strict_import_needs_a_valid_verdict(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise a script would take a number whose kind of samples is unknown."""
    path = tmp_path / "trace.csv"
    path.write_text("t_s,power_W\n0,2.0\n1,2.0\n2,4.0\n3,4.0\n")
    words = ("meters", "import", str(path), "--gain", "1%", "--json", "--strict")
    assert edgebench(*words).code == 3
    said = edgebench(*words, "--samples", "means", "--from", "0", "--until", "1s")
    assert said.code == 0, said.err
    plain = json.loads(said.out)
    assert plain["verdict"]["state"] == "valid"
    assert plain["channels"][0]["energy_j"] == pytest.approx(4.0)  # the mean before 0 s included
    said = edgebench(*words, "--from", "noon")
    assert said.code == 2
    assert "--from must be a time after the first sample, such as 10s" in said.err


def test_hint_of_a_refused_table_is_a_command_that_reads_it(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise a user would have to guess which options an unknown export needs."""
    path = tmp_path / "trace.csv"
    path.write_text("Zeit;Strom\n" + "".join(f"0,{n:02d};0,5\n" for n in range(50)))
    said = edgebench("meters", "import", str(path))
    assert said.code == 2
    hint = shlex.split(said.err.partition("hint: ")[2])
    words = hint[hint.index("edgebench") + 1 :]
    assert words == [
        *("meters", "import", str(path)),
        *("--time", "Zeit:s", "--current", "Strom:A", "--supply", "3.3"),
    ]
    assert edgebench(*words).code == 0


def test_import_of_a_bad_file_is_one_line_and_a_hint(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise a damaged file would become a traceback, or a recording of zero joules."""
    path = write_ppk2(tmp_path / "trace.ppk2", [1000.0] * 100)
    said = edgebench("meters", "import", str(path))
    assert (said.code, said.out) == (2, "")
    assert "as in --supply 3.3" in said.err
    path.write_bytes(path.read_bytes()[:-30])
    for name in (str(path), str(tmp_path), str(tmp_path / "nothing.csv")):
        said = edgebench("meters", "import", name, "--supply", "3.3")
        assert (said.code, said.out) == (2, "")
        assert [line.split(":")[0] for line in said.err.splitlines()] == ["error", "hint"]


def test_import_of_a_saturated_trace_is_refused(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise a flag in a file would have no effect."""
    path = tmp_path / "trace.csv"
    path.write_text("t_s,power_W,flags\n0,2.0,0\n1,2.0,2\n2,2.0,0\n")
    said = edgebench("meters", "import", str(path))
    assert said.code == 3
    assert " J" not in said.out


def test_synthetic_meter_is_recorded(edgebench: Run) -> None:
    """Otherwise the demonstration of the documentation would not work."""
    said = edgebench("meters", "record", "synthetic:constant,power=0.5", "--duration", "0.3s")
    assert said.code == 0, said.err
    assert "500 mW" in said.out
    assert "synthetic" in said.out
