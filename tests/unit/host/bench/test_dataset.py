"""Labelled data sets: any other file is refused before anything is measured."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.digits import MANIFEST

from edgebench.host.bench.dataset import Dataset, open_dataset
from edgebench.protocol.errors import UsageError

X, Y = np.zeros((4, 8, 8, 1)), np.array([0, 1, 2, 3])


def saved(path: Path, **arrays: Any) -> Path:
    """Return a .npz file of these arrays."""
    np.savez(path, **arrays)
    return path


def packed(**arrays: Any) -> bytes:
    """Return the bytes of a .npz file of these arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    """Return a zip archive of anything."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy(array: NDArray[Any]) -> bytes:
    """Return the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def lying_header() -> bytes:
    """Return a .npy file of 128 bytes whose header states 8 petabytes."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    write: Any = np.lib.format.write_array_header_1_0
    write(file, header)
    return file.getvalue()


NO_DATA_SETS = {
    "empty": b"",
    "text": b"x,y\n1,2\n" * 20,
    "npy": npy(X),
    "pickle": pickle.dumps({"x": [1], "y": [1]}),
    "objects": zipped(**{"x.npy": npy(np.array([1])), "y.npy": b"\x93NUMPY" + b"\xff" * 90}),
    "texts for arrays": zipped(x=b"hello", y=b"world"),
    "cut": packed(x=X, y=Y)[:-30],
    "beginning only": packed(x=X, y=Y)[:100],
    "lying header": zipped(**{"x.npy": lying_header(), "y.npy": npy(Y)}),
}


@pytest.mark.parametrize("what", NO_DATA_SETS)
def test_what_is_no_data_set_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    """Otherwise a wrong file would end in a traceback of numpy, or run what is pickled in it."""
    path = tmp_path / "set.npz"
    path.write_bytes(NO_DATA_SETS[what])
    with pytest.raises(UsageError, match=r"not a \.npz file of numbers: .*set\.npz$"):
        open_dataset(str(path))


def test_pickled_objects_inside_are_never_loaded(tmp_path: Path) -> None:
    """Otherwise a data set from the web would run its author's code."""
    with pytest.raises(UsageError, match=r"not a \.npz file of numbers"):
        open_dataset(str(saved(tmp_path / "set.npz", x=np.array([{}], object), y=Y[:1])))


def test_missing_file_and_directory_are_named(tmp_path: Path) -> None:
    """Otherwise a mistyped path would be taken for a bad data set."""
    with pytest.raises(UsageError, match=r"No such file or directory: .*nowhere\.npz"):
        open_dataset(str(tmp_path / "nowhere.npz"))
    with pytest.raises(UsageError, match="a directory in place of a file"):
        open_dataset(str(tmp_path))


def test_pipe_and_device_are_refused_at_once(tmp_path: Path) -> None:
    """Otherwise the command would wait for ever, or take all memory."""
    os.mkfifo(tmp_path / "set.npz")
    with pytest.raises(UsageError, match=r"data set not readable: a pipe in place of a file: .*"):
        open_dataset(str(tmp_path / "set.npz"))
    with pytest.raises(UsageError, match=r"data set not readable: a device in place of a file"):
        open_dataset("/dev/zero")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": X}, "needs the arrays x and y, got x"),
        ({"y": Y}, "needs the arrays x and y, got y"),
        ({"images": X, "labels": Y}, "got images, labels"),
        ({"x": X, "y": Y[:3]}, r"x has shape \[4, 8, 8, 1\], y has \[3\]"),
        ({"x": X, "y": Y.reshape(4, 1)}, r"y has \[4, 1\]"),
        ({"x": X, "y": np.array(3)}, r"y has \[\]"),
        ({"x": np.array(1.0), "y": Y}, r"x has shape \[\]"),
        ({"x": X[:0], "y": Y[:0]}, r"data set is empty: x has shape \[0, 8, 8, 1\], y has \[0\]"),
        ({"x": X[None], "y": Y}, r"before the sample dimension: x has shape \[1, 4, 8"),
        ({"x": np.array(["a", "b"]), "y": Y[:2]}, "needs numbers in x, got type <U1"),
        ({"x": X.astype(complex), "y": Y}, "needs numbers in x, got type complex"),
        ({"x": X + np.nan, "y": Y}, "finite numbers in x: 256 of 256 are NaN or infinite"),
        ({"x": X, "y": np.array(list("abcd"))}, "needs numbers in y, got type <U1"),
        ({"x": X, "y": Y + np.inf}, "finite numbers in y: 4 of 4 are"),
        ({"x": X, "y": Y - 2}, "class numbers from 0 in y for the metric top1"),
        (
            {"x": X, "y": Y + 0.5, "metric": np.array("top1")},
            "class numbers from 0 in y for the metric top1",
        ),
        ({"x": X, "y": Y + 1.7e308}, "labels above 1e"),
        ({"x": X, "y": Y, "metric": np.array("f1")}, "unknown metric 'f1', expected top1"),
        ({"x": X, "y": Y, "metric": np.array("x" * 500)}, r"unknown metric '(x){40}',"),
        ({"x": X, "y": Y * 0, "metric": np.array("auc")}, "both labels for the metric auc"),
        (
            {"x": X, "y": Y + 1, "metric": np.array("reconstruction_auc")},
            "both labels for the metric reconstruction_auc",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_their_shapes(
    tmp_path: Path, arrays: dict[str, Any], said: str
) -> None:
    """Otherwise an hour would be measured before it is found that the labels do not fit."""
    with pytest.raises(UsageError, match=said):
        open_dataset(str(saved(tmp_path / "set.npz", **arrays)))


@pytest.mark.parametrize(
    ("arrays", "metric", "kept"),
    [
        ({"x": X, "y": Y}, "top1", {"y"}),
        ({"x": X, "y": Y.astype(np.float32)}, "mean_abs_error", {"y"}),
        ({"x": X, "y": Y > 1}, "top1", {"y"}),
        ({"x": X, "y": Y, "metric": np.array("mean_abs_error")}, "mean_abs_error", {"y"}),
        ({"x": X, "y": Y > 1, "metric": np.array("auc")}, "auc", {"y"}),
        (
            {"x": X, "y": Y > 1, "metric": np.array("reconstruction_auc")},
            "reconstruction_auc",
            {"x", "y"},
        ),
    ],
)
def test_metric_follows_from_the_file(
    tmp_path: Path, arrays: dict[str, Any], metric: str, kept: set[str]
) -> None:
    """Otherwise real labels would be compared with the largest output, or all samples kept."""
    path = saved(tmp_path / "set.npz", **arrays)
    found = open_dataset(str(path))
    assert (found.name, found.metric, set(found.labels)) == ("set.npz", metric, kept)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert np.array_equal(found.labels["y"], arrays["y"])


def test_compressed_data_set_is_taken(tmp_path: Path) -> None:
    """Otherwise what numpy itself compresses would be refused."""
    np.savez_compressed(tmp_path / "set.npz", x=X, y=Y)
    assert len(open_dataset(str(tmp_path / "set.npz")).labels["y"]) == 4


def test_built_in_one_is_the_same_bytes_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each run would send the test set again, and no two runs could be compared."""
    monkeypatch.chdir(tmp_path)
    first, second = open_dataset("digits"), open_dataset("digits")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert (first.name, first.metric) == ("digits", "top1")
    assert len(first.labels["y"]) == MANIFEST["test_set"]["sample_count"]
    with np.load(first.path) as file:
        assert file["x"].shape == (360, 8, 8, 1)
        assert (file["x"].min(), file["x"].max()) == (0.0, 1.0)


def test_file_called_digits_wins_over_the_built_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a user's own data set would be silently replaced by the built-in one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").write_bytes(packed(x=X, y=Y))
    assert len(open_dataset("digits").labels["y"]) == 4


GOOD = packed(x=X, y=Y)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1))
def test_damaged_file_is_a_data_set_or_refused(
    tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    """Otherwise a disk error would end in one of the dozen exceptions of zipfile and numpy."""
    content = bytearray(GOOD)
    for place, value in changes:
        content[place] = value
    (tmp_path / "set.npz").write_bytes(content)
    try:
        found = open_dataset(str(tmp_path / "set.npz"))
    except UsageError as exc:
        assert "\n" not in str(exc)  # noqa: PT017 - it may be whole, too
    else:
        assert isinstance(found, Dataset)
