"""The guarantees of every shell, whatever its transport: one suite over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.shells import SHELLS

from edgebench.host.devices.account import open_account
from edgebench.host.devices.on_device import describe_interpreter
from edgebench.host.devices.shell import MAX_OUTPUT_BYTES, CommandOutput, Shell
from edgebench.host.devices.target import PARSERS
from edgebench.protocol.errors import LinkTimeout, TargetError


@pytest.fixture(scope="module", params=SHELLS)
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """Each shell, open."""
    with SHELLS[request.param](tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


def run(shell: Shell, *words: str, stdin: bytes = b"") -> CommandOutput:
    """The output of one command."""
    return shell.run(words, what="testing", timeout_s=60.0, stdin=stdin)


def home(shell: Shell) -> str:
    """The account's home directory."""
    return run(shell, "sh", "-c", "echo $HOME").text.strip()


def test_suite_looks_at_every_shell() -> None:
    """Otherwise a new way to log in would be in no contract."""
    assert len(SHELLS) == len(PARSERS) + 2, "one for each, a second for SSH, one of this machine"


def test_exit_code_and_both_streams_are_kept(shell: Shell) -> None:
    """Otherwise a failed step would count as done, or its reason be lost."""
    output = run(shell, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert output.code == 3
    assert sorted(output.text.splitlines()) == ["err", "out"]


def test_program_that_is_not_there_is_an_exit_code(shell: Shell) -> None:
    """Otherwise a device without `python3` could not be checked for `python3.11`."""
    assert run(shell, "no-such-program", "x").code != 0


def test_arguments_arrive_as_they_are(shell: Shell) -> None:
    """Otherwise a path with a space would be two paths, or a name be run as a command."""
    words = ["a b", "$HOME", "'", '"', "*", "; exit 7", "", "ä"]
    output = run(shell, "printf", r"[%s]\n", *words)
    assert (output.code, output.text.splitlines()) == (0, [f"[{word}]" for word in words])


def test_standard_input_arrives_whole_and_ends(shell: Shell) -> None:
    """Otherwise the script would be cut, or Python wait for the rest of it for ever."""
    assert run(shell, "wc", "-c", stdin=b"x" * 300_000).text.strip() == "300000"
    assert run(shell, "wc", "-c").text.strip() == "0"


def test_end_of_a_long_output_is_kept(shell: Shell) -> None:
    """Otherwise endless output would fill the host's memory, or hide the result."""
    output = run(shell, "sh", "-c", f"head -c {4 * MAX_OUTPUT_BYTES} /dev/zero; echo the end")
    assert len(output.text) <= MAX_OUTPUT_BYTES
    assert output.text.endswith("the end\n")


def test_output_cannot_reach_the_terminal(shell: Shell) -> None:
    """Otherwise a device could move the cursor of the user who deploys to it."""
    assert run(shell, "printf", r"a\033[2Jb\377\n").text == "a?[2Jb\ufffd\n"


def test_command_that_does_not_end_is_a_timeout(shell: Shell) -> None:
    """Otherwise a deploy would hang on a device that hangs."""
    with pytest.raises(LinkTimeout, match=r"testing on .* did not end within 1 s"):
        shell.run(["sleep", "20"], what="testing", timeout_s=1.0)


def test_files_are_copied_with_their_content(shell: Shell, tmp_path: Path) -> None:
    """Otherwise a wheel would arrive damaged, or an old wheel stay."""
    content = bytes(range(256)) * 1000
    for name, data in (("a.whl", content), ("b c.whl", b"")):
        (tmp_path / name).write_bytes(data)
    target = home(shell)
    for _ in range(2):
        shell.put([tmp_path / "a.whl", tmp_path / "b c.whl"], target)
    assert run(shell, "wc", "-c", f"{target}/b c.whl").text.split()[0] == "0"
    ours = run(shell, "cmp", f"{target}/a.whl", "-", stdin=content)
    assert (ours.code, ours.text) == (0, "")


def test_file_that_cannot_be_written_is_one_error(shell: Shell, tmp_path: Path) -> None:
    """A full disk or a missing directory is reported without a traceback."""
    (tmp_path / "a.whl").write_bytes(b"a")
    with pytest.raises(TargetError, match=r"not written on .*: /nowhere/at/all/a\.whl: "):
        shell.put([tmp_path / "a.whl"], "/nowhere/at/all")


def test_script_runs_there_and_its_answer_is_understood(shell: Shell) -> None:
    """Otherwise deploying would work through one shell only."""
    facts = open_account(shell).look()
    assert facts.agent.startswith(home(shell))
    here = describe_interpreter()
    assert facts.interpreter.markers.platform_machine == here.markers.platform_machine
    assert facts.interpreter.libc == here.libc
    assert facts.installed == ()


@pytest.mark.parametrize("name", SHELLS)
def test_closing_twice_is_closing(tmp_path: Path, name: str) -> None:
    """Otherwise an error at the end of a deploy would hide an earlier error."""
    with SHELLS[name](tmp_path) as opened:
        assert run(opened, "true").code == 0
        opened.close()
        opened.close()
