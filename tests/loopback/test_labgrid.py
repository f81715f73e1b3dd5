"""Places of a real labgrid coordinator, in addition to the farm file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.labgrid import Labgrid, running_labgrid
from support.tools import need_runtime

from edgebench.host.bench import events
from edgebench.host.devices.discovery import DiscoveredDevice, find_devices
from edgebench.host.devices.farm import LabgridTable, load_farm
from edgebench.host.devices.files import HostFiles
from edgebench.host.devices.health import HealthFiles
from edgebench.host.devices.labgrid import LabgridPlace, places_of, read_places, with_places
from edgebench.host.devices.roster import recorder
from edgebench.host.devices.selection import select
from edgebench.protocol.errors import (
    EdgebenchError,
    NoSuchDevice,
    RemoteProtocolError,
    Unreachable,
    UsageError,
)
from edgebench.protocol.spec import SpecChanges

AGENT = "rack-simulated"
SHORT: SpecChanges = {
    "duration_s": 0.2,
    "min_query_count": 5,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.05,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}


@pytest.fixture(scope="module")
def labgrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labgrid]:
    """A labgrid with places."""
    with running_labgrid(tmp_path_factory.mktemp("labgrid")) as made:
        made.add_places(
            "board-1:edgebench=rack-simulated/rock-5b,board=rk3588,rack=2",
            f"{AGENT}:room=lab",
            "far:edgebench=elsewhere",
            "again:edgebench=rack-simulated",
            "other:",
        )
        made.acquire("board-1", "desk", "anna")
        yield made


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent with two boards."""
    need_runtime("onnxruntime")
    options = ["--name", "rack", "--simulate", "imx8mp-evk", "--simulate", "rock-5b"]
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=options).start()
    yield process
    process.kill()


@pytest.fixture
def host(agent: AgentProcess, tmp_path: Path) -> Host:
    """A host that is paired with the agent."""
    made = Host(tmp_path / "host")
    made.lab.pair(agent.pairing_string())
    return made


def farm_file(host: Host, coordinator: str, more: str = "") -> Path:
    """A farm file of this host with a table of labgrid."""
    path = host.config / "farm.toml"
    path.write_text(
        f'schema = 1\n[labgrid]\ncoordinator = "{coordinator}"\n{more}\n'
        f'[device.{AGENT}]\nlabels = ["own"]\n'
    )
    return path


def listed(host: Host, agent: AgentProcess) -> dict[str, DiscoveredDevice]:
    """The list of devices, by name; the agent itself stands in for this machine's own agent."""
    files = HostFiles(host.config)
    farm = load_farm(host.config / "farm.toml")
    places = places_of(farm.labgrid, files.devices())
    record = recorder(with_places(farm, places, files.devices()), HealthFiles(host.state), places)
    found = find_devices(files, timeout_s=0.1, state=agent.state, record=record)
    return {one.name: one for one in found}


def test_places_are_read_as_the_coordinator_has_them(
    labgrid: Labgrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a labgrid with renumbered fields would make every device free and nameless."""
    places = {place.name: place for place in read_places(labgrid.address)}
    assert set(places) == {"board-1", AGENT, "far", "again", "other"}
    tags = {"edgebench": "rack-simulated/rock-5b", "board": "rk3588", "rack": "2"}
    assert places["board-1"] == LabgridPlace("board-1", tags, "desk/anna")
    assert places[AGENT] == LabgridPlace(AGENT, {"room": "lab"})
    assert [places[name].is_taken for name in ("board-1", AGENT)] == [True, False]
    monkeypatch.setenv("LG_HOSTNAME", "desk")
    monkeypatch.setenv("LG_USERNAME", "anna")
    assert not places["board-1"].is_taken, "it is ours"


def test_tags_are_labels_and_who_acquired_a_place_is_shown(
    labgrid: Labgrid, agent: AgentProcess, host: Host
) -> None:
    """Otherwise labels would be written twice, or a board that is being flashed would look free."""
    farm_file(host, labgrid.address)
    found = listed(host, agent)
    rock = found[f"{AGENT}/rock-5b"]
    assert rock.labels == ("board=rk3588", "rack=2")
    assert rock.place is not None
    assert (rock.place.name, rock.place.acquired_by) == ("board-1", "desk/anna")
    first = found[f"{AGENT}/imx8mp-evk"]
    assert "own" in first.labels


def test_run_on_a_label_of_labgrid_says_who_may_disturb_it(labgrid: Labgrid, host: Host) -> None:
    """Otherwise a tag would select nothing, or a run on a taken place would give no warning."""
    farm_file(host, labgrid.address)
    told: list[str] = []

    def keep(event: events.MeasurementEvent) -> None:
        if isinstance(event, events.FarmSourceFailed):
            told.append(str(event.error))
        elif isinstance(event, events.LabgridPlaceTaken):
            told.append(f"{event.device} {event.place} {event.acquired_by}")

    [run] = host.lab.bench(
        "digits_int8.onnx", runs=1, on=["label:board=rk*"], watcher=keep, **SHORT
    )
    assert run.document["device"]["name"] == "rock-5b-simulated"
    assert told[-1] == f"{AGENT}/rock-5b board-1 desk/anna"
    assert not any("place far" in one for one in told), "it may be another host's device"
    assert any(f"labgrid place {AGENT} is not used: place" in one for one in told)


def test_table_of_the_farm_file_is_stronger_than_a_tag(labgrid: Labgrid, host: Host) -> None:
    """Otherwise a place whose tag belongs to another person could not be used."""
    farm_file(
        host, labgrid.address, f'[labgrid.place]\nfar = "{AGENT}"\nnone = "{AGENT}"\nother = "nix"'
    )
    farm, paired = load_farm(host.config / "farm.toml"), HostFiles(host.config).devices()
    places = places_of(farm.labgrid, paired)
    assert any("labgrid place other is not used: no paired" in str(one) for one in places.doubts)
    assert any("has no place none" in str(one) for one in places.doubts)
    assert places.by_device[AGENT].name == "again", "the first of two by its name"
    assert any("labgrid place far is not used: place" in str(one) for one in places.doubts)
    merged = with_places(farm, places, paired)
    assert [one.name for one in select(["label:rack=2"], paired, merged)] == [f"{AGENT}/rock-5b"]
    with pytest.raises(NoSuchDevice):
        select(["label:room=lab"], paired, merged)


def test_coordinator_that_is_away_is_a_doubt(host: Host, agent: AgentProcess) -> None:
    """Otherwise a restart of the coordinator would prevent every measurement."""
    farm_file(host, "127.0.0.1:1")
    doubts: list[EdgebenchError] = []
    farm, paired = load_farm(host.config / "farm.toml"), HostFiles(host.config).devices()
    places = places_of(farm.labgrid, paired)
    doubts += places.doubts
    assert [type(one) for one in doubts] == [Unreachable]
    assert "labgrid coordinator 127.0.0.1:1 does not respond" in str(doubts[0])
    assert [one.name for one in select(["label:own"], paired, with_places(farm, places, paired))]
    result = host.run("bench", "digits_int8.onnx", "--on", "label:other")
    assert result.returncode == 2
    assert "warning: labgrid coordinator 127.0.0.1:1 does not respond" in result.stderr
    with pytest.raises((RemoteProtocolError, Unreachable)):
        read_places(f"127.0.0.1:{agent.port}")


def test_misspelt_key_of_the_table_is_named(host: Host) -> None:
    """Otherwise a misspelt coordinator would silently count as none."""
    path = farm_file(host, "x", 'coordinater = "y"')
    with pytest.raises(UsageError, match=r"farm.toml:4: labgrid.coordinater: no such key"):
        load_farm(path)
    assert LabgridTable(coordinator="x").tag == "edgebench"
