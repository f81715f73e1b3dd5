"""Progress of a measurement, in a notebook and elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.host import Lab, NotebookProgress
from edgebench.host.bench import events
from edgebench.protocol.errors import WorkerDied
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.record import Phase

RUNS = Path(__file__).parents[2] / "fixtures" / "runs" / "v7"
PLAIN = RUNS / "20261123-031046-26335d6d"


class Page:
    """The part of IPython's display in use; keeps the content of the page."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def HTML(self, text: str) -> str:  # noqa: N802
        """Return the text unchanged."""
        return text

    def display(self, text: str, *, display_id: bool) -> Page:
        """Add a place to the page."""
        assert display_id
        self.shown.append(text)
        return self

    def update(self, text: str) -> None:
        """Replace the content of the place."""
        self.shown[-1] = text


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    """A notebook, reduced to what is used."""
    made = Page()
    shell: Any = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    return made


def begin(notify: events.Notify) -> None:
    """The events of a run until its warm-up."""
    notify(events.DeviceSelected("board", 1))
    place = events.Place(1, 5)
    notify(events.RunBegan("board", "board", "digits_int8.tflite", "litert", place))
    notify(events.PhaseReport("board", Progress("id", Phase.WARMING_UP, 2.0)))
    telemetry = Telemetry("id", 0, temp_c=41.25, freq_hz=2.4e9)
    notify(events.TelemetryReport("board", telemetry))


def measure(notify: events.Notify, tmp_path: Path) -> None:
    """The events of a run from begin to end."""
    begin(notify)
    notify(events.RunStored("board", Lab(tmp_path).run(str(PLAIN)).result))


def test_notebook_has_one_place_that_changes(page: Page, tmp_path: Path) -> None:
    """Otherwise a page would have a thousand lines, or show nothing for an hour."""
    progress = NotebookProgress()
    begin(progress)
    assert page.shown == [
        "<pre>board: 1/5 digits_int8.tflite on litert: warming up, for about 0:00:02, 41.2 °C, "
        "2.40 GHz</pre>"
    ]
    progress.echo("<b>\x1b[2J")
    assert page.shown[0].startswith("<pre>&lt;b&gt;")
    assert "\x1b" not in page.shown[0]
    measure(progress, tmp_path)
    assert len(page.shown) == 1
    assert "board: 1/5 digits_int8.tflite on litert: p50 " in page.shown[0]
    assert "warming up" not in page.shown[0]


def test_elsewhere_a_run_is_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Otherwise a script would print objects of IPython, or import it."""
    measure(NotebookProgress(), tmp_path)
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("board: 1/5 digits_int8.tflite on litert: p50 ")
    assert "IPython" not in sys.modules


def test_failure_is_raised_as_without_it(page: Page) -> None:
    """Otherwise a cell would succeed without its results."""
    del page
    with pytest.raises(WorkerDied):
        NotebookProgress()(events.RunFailed("board", "m.tflite", "litert", WorkerDied("killed")))
