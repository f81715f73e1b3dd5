"""Governors are set at the operator's request, and restored whatever happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.boards import BOARDS, make_board
from support.trees import make_tree

from edgebench.agent.governor import KEPT_FILE, Governors
from edgebench.protocol.errors import GovernorRefused


def now(root: Path) -> list[str]:
    """The governor of each policy."""
    paths = sorted((root / "sys/devices/system/cpu/cpufreq").glob("policy*/scaling_governor"))
    return [path.read_text().strip() for path in paths]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A board with three policies."""
    return make_board(tmp_path / "root", BOARDS["rock_5b"])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The agent's state directory."""
    path = tmp_path / "state"
    path.mkdir()
    return path


def test_every_policy_is_set_and_restored(root: Path, state: Path) -> None:
    """Otherwise the big cores would stay slow, or a colleague's board at full clock for ever."""
    before = now(root)
    assert len(before) == 3
    governors = Governors(state, root)
    governors.set("powersave")
    assert now(root) == ["powersave"] * 3
    governors.restore()
    assert now(root) == before
    assert list(state.iterdir()) == []
    governors.restore()
    assert now(root) == before


def test_agent_that_was_killed_restores_when_it_starts_again(root: Path, state: Path) -> None:
    """Otherwise a crash would leave the clocks as no operator wanted them."""
    before = now(root)
    Governors(state, root).set("powersave")
    Governors(state, root).restore()
    assert now(root) == before


def test_governor_that_is_not_offered_is_refused_with_those_that_are(
    root: Path, state: Path
) -> None:
    """Otherwise a misspelt governor would be written into the kernel, or ignored."""
    before = now(root)
    with pytest.raises(
        GovernorRefused, match=r"governor fast is not offered; available: .*schedutil"
    ):
        Governors(state, root).set("fast")
    assert now(root) == before
    assert not (state / KEPT_FILE).exists()


def test_policy_that_may_not_be_set_leaves_all_as_they_were(root: Path, state: Path) -> None:
    """Otherwise half of the clocks would be changed, and the run refused."""
    before = now(root)
    path = root / "sys/devices/system/cpu/cpufreq/policy6/scaling_governor"
    path.unlink()
    path.mkdir()  # not even root can write into a directory as if it were a file
    with pytest.raises(GovernorRefused, match=r"governor powersave not set: .*policy6"):
        Governors(state, root).set("powersave")
    path.rmdir()
    path.write_text(before[2])
    assert now(root) == before


def test_machine_without_policies_says_so(tmp_path: Path, state: Path) -> None:
    """Otherwise a virtual machine would be reported to run at full clock."""
    with pytest.raises(GovernorRefused, match="offers no frequency policies"):
        Governors(state, tmp_path).set("performance")


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "[" * 100_000, "1" * 5000])
def test_damaged_account_of_an_earlier_agent_does_not_keep_it_from_starting(
    root: Path, state: Path, content: str
) -> None:
    """Otherwise the agent would never start again after a full disk at the wrong moment."""
    (state / KEPT_FILE).write_text(content)
    Governors(state, root).restore()
    Governors(state, root).set("performance")


def test_policy_that_cannot_be_restored_is_tried_again_at_the_next_start(
    root: Path, state: Path
) -> None:
    """Otherwise a CPU that is off when the run ends would keep the run's governor for ever."""
    before = now(root)
    Governors(state, root).set("powersave")
    path = root / "sys/devices/system/cpu/cpufreq/policy4/scaling_governor"
    path.rename(away := path.with_name("away"))
    path.mkdir()  # not even root can write into a directory as if it were a file
    Governors(state, root).restore()
    path.rmdir()
    away.rename(path)
    assert now(root) == [before[0], "powersave", before[2]]
    Governors(state, root).set("performance")  # the next run, before anything was restored
    Governors(state, root).restore()
    assert now(root) == before
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("name", [7, None, ["performance"], "", "a\nb", "x" * 100])
def test_account_with_what_is_no_governor_is_not_written_into_the_kernel(
    root: Path, state: Path, name: object
) -> None:
    """Otherwise a damaged file would keep the agent from starting, or its content land in /sys."""
    before = now(root)
    policy = root / "sys/devices/system/cpu/cpufreq/policy0"
    elsewhere = make_tree(root / "elsewhere", {"scaling_governor": "mine\n"})
    kept = {str(policy): name, str(elsewhere): "powersave"}
    (state / KEPT_FILE).write_text(json.dumps(kept))
    Governors(state, root).restore()
    assert now(root) == before
    assert (elsewhere / "scaling_governor").read_text() == "mine\n"
