"""One host for the command line, with one measured run in its store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.agents import Host, end_local_agent
from support.commands import QUICK, Measured, Run, Said
from support.failures import assert_one_error
from support.tools import need_runtime

from edgebench.host.cli.main import main


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """Measured once for all tests of the command line; its local agent is ended afterwards."""
    need_runtime("ai-edge-litert")
    host = Host(tmp_path_factory.mktemp("measured"))
    result = host.run("bench", "digits_int8.tflite", "--runtime", "litert", *QUICK, "--json")
    yield Measured(host, result.stdout, result.stderr, result.returncode)
    end_local_agent(host)


@pytest.fixture
def edgebench(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """`edgebench` in this process, on the directories of an empty host."""
    for name, value in host.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("EDGEBENCH_STORE", raising=False)

    def run(*words: str) -> Said:
        try:
            code = main(words)
        except SystemExit as exc:
            code = int(exc.code or 0)
        said = capsys.readouterr()
        assert_one_error(words, code, said.err)
        return Said(code, said.out, said.err)

    return run
