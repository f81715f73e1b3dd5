"""A device that another command holds: waited for, or freed by stopping the run on it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.watchers import OnceMeasured, on, wait_until_measuring

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import DeviceBusy, DeviceStillBusy, MeasurementEvent
from edgebench.host.bench.lease import take_lease
from edgebench.host.bench.request import new_request
from edgebench.host.show.hints import hint_for
from edgebench.protocol.errors import LeaseHeld, UsageError
from edgebench.protocol.spec import SpecChanges

MODEL = "digits_int8.tflite"
LONG = (
    *("bench", MODEL, "--on", "board", "--quick", "--runs=1", "--duration", "60s", "--no-check"),
    *("--scenario", "server", "--qps", "100", "--warmup-duration", "0.05s"),
)
"""A run that waits more than it computes."""
SHORT: SpecChanges = {
    "duration_s": 0.5,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.05,
    "is_checked": False,
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: each test ends the runs that it starts."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def other(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Another host that is paired with the agent."""
    made = Host(tmp_path_factory.mktemp("other") / "h")
    made.lab.pair(agent.pairing_string())
    return made


def test_run_of_a_killed_host_is_stopped_by_its_owner_and_collected(
    agent: AgentProcess, paired: Host, other: Host
) -> None:
    """Otherwise a laptop that died would hold the device for an hour, with no way to free it."""
    command = paired.popen(*LONG)
    wait_until_measuring(agent.state)
    time.sleep(0.5)  # 50 queries
    command.kill()
    command.communicate()
    running = agent.status().running
    with pytest.raises(
        LeaseHeld, match=r"in use by .*, until its run ends; taken \d+ s ago"
    ) as held:
        paired.lab.bench(MODEL, on=["board"])
    assert hint_for(held.value).endswith(
        "--wait 10m; or end your run there: edgebench stop --on board"
    )
    with pytest.raises(LeaseHeld) as held:
        other.lab.stop("board")
    # The tests' hosts have one name, as two windows of one user have.
    assert hint_for(held.value).endswith("end your other command with Ctrl-C in its terminal")
    assert agent.status().running == running

    stopped = paired.run("stop", "--on", "board", "--json")
    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(stopped.stdout) == {"device": "board", "stopped": running}
    assert agent.status().running is None
    paired.lab.bench(MODEL, on=["board"], preset="quick", runs=1, **SHORT)
    first = paired.lab.run(str(running))
    assert first.verdict == "invalid"
    assert len(first.queries) > 20
    assert agent.status().spooled_count == 0


def test_command_goes_on_with_its_next_run_when_one_is_stopped(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise the user would expect the command to end, and find it at work an hour later."""
    command = paired.popen(*(word.replace("--runs=1", "--runs=2") for word in LONG))
    wait_until_measuring(agent.state)
    first = agent.status().running
    stopped = paired.run("stop", "--on", "board")
    try:
        wait_until(lambda: agent.status().running not in (None, first), "the next run has begun")
    finally:
        command.send_signal(signal.SIGINT)
        print(*command.communicate(timeout=30))  # for a failure
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.splitlines() == [
        f"stopped: run {first} on board; its measurements are on the device",
        "only this run was stopped. If the command that started the run is still running, the "
        "command collects the run and starts the next; to end the command, press Ctrl-C in its "
        "terminal",
        "next, if no command collects the run: edgebench collect --on board",
    ]
    assert first in paired.lab.store.run_ids()
    assert agent.status().spooled_count == 0


def test_nothing_to_stop_is_no_failure(paired: Host) -> None:
    """Otherwise a script that frees a device before it measures would fail on every free one."""
    result = paired.run("stop", "--on", "board")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "no run of yours is in progress on board\n"


def test_device_that_becomes_free_is_measured_on_at_once(paired: Host, other: Host) -> None:
    """Otherwise the second of two benchmarks would be refused, or notice the free device late."""
    said: list[str] = []

    def free(event: MeasurementEvent) -> None:
        if isinstance(event, DeviceBusy):  # as soon as it is waited for
            said.append(f"{event.device} {event.wait_s:g} {event.refusal}")
            threading.Timer(0.1, holder.release).start()
        elif isinstance(event, DeviceStillBusy):
            said.append("still waiting")

    with other.lab.connect("board") as holder:
        holder.acquire()
        runs = paired.lab.bench(
            MODEL, on=["board"], preset="quick", runs=1, wait_s=600.0, watcher=free, **SHORT
        )
    assert len(runs) == 1
    [line] = said
    assert line.startswith("board 600 device is in use by ")


def test_command_that_cannot_succeed_does_not_wait(paired: Host, other: Host) -> None:
    """Otherwise a typing error would be reported only after ten minutes of waiting for a device."""
    with other.lab.connect("board") as holder:
        holder.acquire()
        for words, said in (
            (("--cpus", "900"), "error: CPU 900 is not available to models on board; available: 0"),
            (("--runtime", "onxx"), "error: unknown runtime 'onxx'; available: "),
        ):
            result = paired.run("bench", MODEL, "--on", "board", *words, "--wait", "10m")
            assert result.returncode == 2
            assert result.stderr.startswith(said), result.stderr
        holder.acquire()  # again: on a busy machine the commands outlast a lease
        with pytest.raises(LeaseHeld, match="in use by"):
            paired.lab.bench(MODEL, on=["board"], cpus=(0,))


def test_wait_ends_in_the_same_error_and_ctrl_c_in_one_line(
    agent: AgentProcess, paired: Host, other: Host
) -> None:
    """Otherwise a wait that is over or cancelled would end in a traceback or a lease."""
    with other.lab.connect("board") as holder:
        holder.acquire()
        with pytest.raises(LeaseHeld, match=r"^waited for 0.1 s: device is in use by ") as held:
            paired.lab.bench(MODEL, on=["board"], wait_s=0.1)
        assert hint_for(held.value).startswith("wait longer: edgebench bench MODEL --wait 10m")
        command = paired.popen(*LONG, "--wait", "10m")
        assert command.stderr is not None
        line = command.stderr.readline()
        assert line.startswith("waiting: board, for up to 0:10:00: device is in use by ")
        command.send_signal(signal.SIGINT)
        assert command.communicate(timeout=30) == ("", "interrupted\n")
        assert command.returncode == 130
        holder.release()
        assert agent.status().lease_holder is None, "nobody takes it for a host that has gone"


def test_agent_that_cannot_wait_is_asked_again(
    agent: AgentProcess, paired: Host, other: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a wait would end at once with an older agent."""
    monkeypatch.setattr("edgebench.host.bench.lease.REPORT_INTERVAL_S", 0.1)
    seen: list[float] = []

    def free(event: DeviceStillBusy) -> None:
        seen.append(event.elapsed_s)
        if len(seen) == 2:
            holder.release()

    with other.lab.connect("board") as holder, paired.lab.connect("board") as client:
        acquire = client.acquire
        monkeypatch.setattr(client, "acquire", lambda _: acquire())  # older: ignores `wait_s`
        holder.acquire()
        take_lease(client, "board", 30.0, on(DeviceStillBusy, free), Cancellation())
        assert agent.status().lease_holder is not None
        client.release()
    assert [elapsed_s > 0.1 * number for number, elapsed_s in enumerate(seen, 1)] == [True, True]


@pytest.mark.parametrize("wait_s", [-1.0, float("nan"), float("inf")])
def test_wait_of_no_length_is_refused(paired: Host, wait_s: float) -> None:
    """Otherwise a typing mistake would wait for ever."""
    with pytest.raises(UsageError, match=r"wait must be 0 to 604800 s \(7 days\)"):
        paired.lab.bench(MODEL, on=["board"], wait_s=wait_s)


def test_two_clients_of_one_process_do_not_share_a_lease(paired: Host) -> None:
    """Otherwise two lanes of a campaign could use one device, and one free the other's lease."""
    with paired.lab.connect("board") as first, paired.lab.connect("board") as second:
        first.acquire()
        with pytest.raises(LeaseHeld, match="device is in use by"):
            second.acquire()
        second.release()
        first.acquire()
        first.release()
        second.acquire()


def test_measurement_in_a_thread_is_cancelled_from_another(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise no lane of a campaign could be stopped, as Ctrl-C reaches only the main thread."""
    cancellation, ends = Cancellation(), list[Exception]()
    is_measured = threading.Event()
    watcher = OnceMeasured(is_measured.set)
    request = new_request(
        [MODEL],
        on=["board"],
        preset="quick",
        runs=2,
        duration_s=60.0,
        is_checked=False,
        scenario="server",
        target_qps=100.0,
        warmup_duration_s=0.05,
    )

    def lane() -> None:
        try:
            paired.lab.measure(request, watcher, cancellation)
        except Exception as exc:  # for the test's own thread
            ends.append(exc)

    thread = threading.Thread(target=lane)
    thread.start()
    assert is_measured.wait(60)
    cancellation.request()
    thread.join(30)
    [end] = ends
    assert isinstance(end, Interrupted)
    assert end.run is not None, "what was measured is kept"
    assert len(paired.lab.runs()) == 1
    assert (agent.status().running, agent.status().lease_holder) == (None, None)
    with pytest.raises(Interrupted):
        paired.lab.measure(request, cancellation=cancellation)
