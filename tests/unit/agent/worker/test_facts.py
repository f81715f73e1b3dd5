"""Clocks, counters and settings of a worker: what the kernel does not report is None, not zero."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.denied import denied_files
from support.tools import skip_or_fail
from support.trees import make_tree

from edgebench.agent.worker import facts
from edgebench.protocol.record import ThreadTime
from edgebench.protocol.spec import MAX_CPUS, Priority, RunSpec

OWN_CPUS = sorted(os.sched_getaffinity(0))
STALL = "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 total={full}\n"


def stalls(**some_us: int) -> Mapping[str, str]:
    """Pressure files with these microseconds of `some`; `full` is another number."""
    return {
        f"proc/pressure/{kind}": STALL.format(some=value, full=value + 77)
        for kind, value in some_us.items()
    }


def frequencies(*khz: str, governor: str = "ondemand") -> Mapping[str, str]:
    """A frequency and a governor of each CPU that this process may use."""
    folder = "sys/devices/system/cpu/cpu{}/cpufreq/"
    pairs = list(zip(OWN_CPUS, khz, strict=False))
    return {
        **{folder.format(cpu) + "scaling_cur_freq": f"{value}\n" for cpu, value in pairs},
        **{folder.format(cpu) + "scaling_governor": f"{governor}\n" for cpu, _ in pairs},
    }


def test_nothing_is_invented_where_the_kernel_tells_nothing(tmp_path: Path) -> None:
    """Otherwise a phone that hides its counters would have a load, a stall and a swap of zero."""
    found = facts.read_moment(tmp_path)
    assert (found.cpu_busy_s, found.cpu_total_s, found.swapped_page_count) == (None, None, None)
    assert (found.cpu_stall_s, found.memory_stall_s, found.io_stall_s) == (None, None, None)
    assert (found.freq_hz, found.governors) == ((), ())
    assert (found.cpus, found.threads) == ((), ())


def test_pressure_is_the_time_in_which_somebody_waited(tmp_path: Path) -> None:
    """Otherwise microseconds would be seconds, or memory I/O, or the `full` line would be read."""
    root = make_tree(tmp_path, stalls(cpu=1_500_000, memory=20, io=3_000_000_000))
    found = facts.read_moment(root)
    assert (found.cpu_stall_s, found.memory_stall_s, found.io_stall_s) == (1.5, 2e-5, 3000.0)


def test_pressure_without_its_own_line_is_unknown(tmp_path: Path) -> None:
    """Otherwise the first number of an odd file would be taken for a time."""
    root = make_tree(tmp_path, {"proc/pressure/cpu": "full avg10=0.00 total=5\n"})
    assert facts.read_moment(root).cpu_stall_s is None


def test_swapped_pages_are_those_in_and_out(tmp_path: Path) -> None:
    """Otherwise page faults of files would be taken for swap, or half of the swap be missing."""
    text = "nr_free_pages 9\npgpgin 1000\npswpin 30\npswpout 12\nxpswpin 500\npswpin_zero 7\n"
    assert facts.read_moment(make_tree(tmp_path, {"proc/vmstat": text})).swapped_page_count == 42


def test_kernel_without_swap_counters_is_unknown(tmp_path: Path) -> None:
    """Otherwise a kernel without swap would have half a counter."""
    root = make_tree(tmp_path, {"proc/vmstat": "pswpin 30\n"})
    assert facts.read_moment(root).swapped_page_count is None


def test_cpu_times_are_seconds_of_all_cpus(tmp_path: Path) -> None:
    """Otherwise ticks would be taken for seconds, or time stolen by a hypervisor for idleness."""
    stat = "cpu  100 20 300 4000 500 6 7 80 90 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n"
    found = facts.read_moment(make_tree(tmp_path, {"proc/stat": stat}))
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert found.cpu_busy_s == pytest.approx((100 + 20 + 300 + 6 + 7 + 80) * tick_s)
    assert found.cpu_total_s == pytest.approx(5013 * tick_s)


def test_times_by_cpu_are_those_of_the_own_cores(tmp_path: Path) -> None:
    """Otherwise a neighbour elsewhere would count, or a neighbour on the same core be missed."""
    own, twin, far = OWN_CPUS[0], OWN_CPUS[-1] + 40, OWN_CPUS[-1] + 41
    lines = [f"cpu{cpu} {100 + cpu} 0 0 900 0 0 0 7\n" for cpu in (*OWN_CPUS, twin, far)]
    mask = f"{1 << own | 1 << twin:x}"
    siblings = {
        f"sys/devices/system/cpu/cpu{own}/topology/thread_siblings": f"{mask[:-8]},{mask[-8:]}\n"
    }
    root = make_tree(tmp_path, {"proc/stat": "cpu  1 2 3 4 5 6 7 8\n" + "".join(lines)}, siblings)
    found = facts.read_moment(root)
    assert [cpu.cpu for cpu in found.cpus] == [*OWN_CPUS, twin]
    assert found.cpus[-1].busy_s == pytest.approx((107 + twin) / os.sysconf("SC_CLK_TCK"))


def test_threads_tell_how_long_they_waited(tmp_path: Path) -> None:
    """Otherwise nanoseconds would be seconds, or a disabled account would show no waiting."""
    folder = "proc/self/task/{}/schedstat"
    times = {folder.format(12): "3000000000 250000000 17\n", folder.format(9): "5000000 0 1\n"}
    found = facts.read_moment(make_tree(tmp_path, times)).threads
    assert found == (ThreadTime(9, 0.005, 0.0), ThreadTime(12, 3.0, 0.25))
    root = make_tree(tmp_path / "off", {folder.format(12): "0 0 0\n"})
    assert facts.read_moment(root).threads == ()


def test_two_threads_that_share_a_cpu_wait_for_each_other() -> None:
    """Otherwise the kernel would count something other than the CPU pressure rule needs."""
    if not facts.read_moment().threads:
        skip_or_fail("this kernel does not account for waiting threads")
    result = subprocess.run([sys.executable, "-c", RIVALS], capture_output=True, text=True)
    waited_s, loop_s = json.loads(result.stdout)
    assert waited_s > 0.25 * loop_s


RIVALS = """
import hashlib, json, os, threading, time
from edgebench.agent.worker import facts
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
rival = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 600_000))
rival.start()
before = facts.read_moment()
hashlib.pbkdf2_hmac("sha256", b"", b"", 600_000)
after = facts.read_moment()
rival.join()
earlier = {one.thread: one.wait_s for one in before.threads}
waited_s = max(one.wait_s - earlier[one.thread] for one in after.threads if one.thread in earlier)
print(json.dumps([waited_s, (after.monotonic_ns - before.monotonic_ns) / 1e9]))
"""


@pytest.mark.parametrize("stat", ["", "cpu  1 2\n", "cpu  a b c d e f g h\n", "intr 1 2 3\n"])
def test_odd_cpu_times_are_unknown(tmp_path: Path, stat: str) -> None:
    """Otherwise an odd kernel would end every run."""
    assert facts.read_moment(make_tree(tmp_path, {"proc/stat": stat})).cpu_total_s is None


def test_frequencies_are_those_of_the_own_cpus(tmp_path: Path) -> None:
    """Otherwise kilohertz would be hertz, or the frequency of an unused core would be judged."""
    foreign = {f"sys/devices/system/cpu/cpu{MAX_CPUS}/cpufreq/scaling_cur_freq": "1\n"}
    root = make_tree(tmp_path, frequencies(*["1800000"] * len(OWN_CPUS)), foreign)
    found = facts.read_moment(root)
    assert found.freq_hz == (1_800_000_000,) * len(OWN_CPUS)
    assert found.governors == ("ondemand",)


@pytest.mark.parametrize("text", ["", "<unknown>", "-1", "1.5e6"])
def test_frequency_that_is_no_number_is_left_out(tmp_path: Path, text: str) -> None:
    """Otherwise a virtual machine's <unknown> would end every run."""
    assert facts.read_moment(make_tree(tmp_path, frequencies(text))).freq_hz == ()


def test_different_governors_are_told_once_each(tmp_path: Path) -> None:
    """Otherwise the governor of one core would stand for all."""
    if len(OWN_CPUS) < 2:
        pytest.skip("needs two CPUs")
    mixed = dict(frequencies(*["1000000"] * len(OWN_CPUS)))
    mixed[f"sys/devices/system/cpu/cpu{OWN_CPUS[0]}/cpufreq/scaling_governor"] = "performance\n"
    found = facts.read_moment(make_tree(tmp_path, mixed))
    assert found.governors == ("performance", "ondemand")


@given(text=st.binary(max_size=300))
def test_any_content_of_the_kernels_files_is_survived(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    """Otherwise one odd file of an odd kernel would end every run on that device."""
    root = tmp_path_factory.mktemp("tree")
    names = ("cpu", "memory", "io")
    tree: dict[str, str | bytes] = {
        f"proc/pressure/{name}": b"some total=" + text for name in names
    }
    tree |= {"proc/vmstat": text, "proc/stat": b"cpu  " + text}
    tree |= dict.fromkeys(frequencies("1"), text)
    facts.read_moment(make_tree(root, tree))


def test_clocks_of_a_moment_are_those_of_the_trace() -> None:
    """Otherwise the span of a run would be measured on another clock than its queries."""
    before = time.perf_counter_ns(), time.time_ns()
    found = facts.read_moment()
    after = time.perf_counter_ns(), time.time_ns()
    assert before[0] <= found.monotonic_ns <= after[0]
    assert before[1] <= found.wall_ns <= after[1]


def test_own_processor_time_grows_with_own_work() -> None:
    """Otherwise the model's own work would be taken for that of others."""
    before = facts.read_moment()
    while time.process_time() < before.own_cpu_s + 0.05:
        pass
    after = facts.read_moment()
    assert after.own_cpu_s >= before.own_cpu_s + 0.04
    assert after.involuntary_switch_count >= before.involuntary_switch_count
    assert after.major_fault_count >= before.major_fault_count


def test_memory_is_that_of_this_process() -> None:
    """Otherwise memory would be counted in KiB, or with that of the parent."""
    resident, peak = facts.resident_bytes(), facts.resident_bytes("VmHWM")
    assert resident is not None
    assert peak is not None
    assert 2**23 < resident <= peak < 2**40
    shared = facts.proportional_bytes()
    assert shared is None or 2**20 < shared <= 1.1 * peak
    assert facts.resident_bytes("VmNothing") is None


SCHEDULE = """
import json, os, sys
from edgebench.agent.worker import facts
from edgebench.protocol.spec import Priority, RunSpec
if sys.argv[1] == "nobody":
    os.setgid(65534), os.setuid(65534)
fields = json.loads(sys.argv[2])
spec = RunSpec("tflite", cpus=tuple(fields["cpus"]), priority=Priority(fields["priority"]))
refused = facts.apply_scheduling(spec)
found = facts.describe_scheduling(refused)
print(json.dumps([found.cpus, found.policy, found.nice, found.refused]))
"""


def schedule(user: str, *, cpus: tuple[int, ...] = (), priority: str = "normal") -> Any:
    """CPUs, policy, nice value and refusals of a process that was bound in this way."""
    fields = json.dumps({"cpus": cpus, "priority": priority})
    result = subprocess.run(
        [sys.executable, "-c", SCHEDULE, user, fields], capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout)


def test_process_is_bound_to_the_cpu_that_was_asked_for() -> None:
    """Otherwise a run on the big core would be a run on all cores."""
    assert schedule("own", cpus=(OWN_CPUS[-1],)) == [[OWN_CPUS[-1]], "other", os.nice(0), []]


def test_nothing_asked_for_is_nothing_changed() -> None:
    """Otherwise a run without a setting would be bound to CPU 0."""
    assert schedule("own") == [OWN_CPUS, "other", os.nice(0), []]


def test_cpu_that_is_not_there_is_refused_by_its_number() -> None:
    """Otherwise a run on a core that does not exist would silently be a run on all cores."""
    cpus, _, _, refused = schedule("own", cpus=(MAX_CPUS - 1,))
    assert cpus == OWN_CPUS
    usable = ",".join(map(str, OWN_CPUS))
    assert refused == [f"not bound to CPU {MAX_CPUS - 1}: Invalid argument; usable CPUs: {usable}"]


def test_priority_without_permission_is_refused_with_the_reason() -> None:
    """Otherwise a run in real time would silently be like every other run."""
    if os.geteuid() != 0:
        skip_or_fail("becomes somebody without permissions, which needs root")
    _, policy, _, refused = schedule("nobody", priority="realtime")
    assert policy == "other"
    assert refused == ["no realtime priority: Operation not permitted"]


def test_realtime_is_told_or_the_reason_why_not() -> None:
    """Otherwise the record of a run in real time would not mention it."""
    _, policy, _, refused = schedule("own", priority=Priority.REALTIME.value)
    assert (policy == "fifo") == (not refused)
    assert RunSpec("tflite").priority is Priority.NORMAL


def test_time_of_suspend_is_that_of_the_kernel() -> None:
    """Otherwise a phone that sleeps during a run would not be noticed."""
    moment = facts.read_moment()
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    assert moment.suspended_ns is not None
    assert moment.suspended_ns / 1e9 == pytest.approx(now_s, abs=1.0)


def test_system_that_denies_its_files_leaves_memory_unknown() -> None:
    """Otherwise a model would take 0 bytes."""
    with denied_files("/proc/self/status"):
        assert facts.resident_bytes() is None
