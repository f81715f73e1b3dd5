"""Kits built from a small part of this machine, read back, and damaged."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest
from support.tools import need_tool, skip_or_fail

from edgebench.host.cli import kit as command
from edgebench.host.cli.main import main
from edgebench.host.kit import build
from edgebench.host.kit import kit as kits
from edgebench.host.kit.build import PYTHONS, BuiltKit, build_kit
from edgebench.host.kit.elf import PAGE_BYTES, read_elf
from edgebench.host.kit.kit import ARCHIVE, MANIFEST, PLACE, find_kit
from edgebench.host.kit.root import Root
from edgebench.protocol.errors import KitMissing, KitNotBuilt, NotAKit

Captured = pytest.CaptureFixture[str]
MODULES = (
    "os.py",
    "venv/",
    "encodings/",
    "lib-dynload/_ssl",
    "lib-dynload/_bz2",
    "test/",
    "turtle.py",
)


class PartOfThisMachine(Root):
    """The system of this machine, with few modules of its standard library."""

    def __init__(self) -> None:
        super().__init__(Path("/"))

    def files(self, path: str) -> Iterator[tuple[str, PurePosixPath]]:
        """The files, of the standard library only those modules."""
        is_whole = not re.fullmatch(r".*/python3\.\d+", path)
        return (file for file in super().files(path) if is_whole or file[0].startswith(MODULES))


@pytest.fixture(scope="module", autouse=True)
def _packed_fast() -> Iterator[None]:
    """Preset 0 of xz: packing takes most of the time of a build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "COMPRESSION", 0)
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltKit:
    """A kit built from that system."""
    if not any(Path(f"/usr/bin/python{python}").exists() for python in PYTHONS):
        skip_or_fail("needs a Python of the system's packages")
    return build_kit(PartOfThisMachine(), tmp_path_factory.mktemp("kit"))


def test_kit_is_a_wheel_that_pip_installs(built: BuiltKit, tmp_path: Path) -> None:
    """Otherwise a user without Debian's packages would have no kit."""
    words = ["install", "--no-index", "--no-deps", "--target", str(tmp_path), str(built.path)]
    subprocess.run([sys.executable, "-m", "pip", "-q", *words], check=True)
    [info] = tmp_path.glob("edgebench_kit-*.dist-info")
    licences = {path.name for path in (info / "licenses").iterdir()}
    assert licences == {package.licence for package in built.manifest.packages}
    assert "libc6.txt" in licences
    sys.path.insert(0, str(tmp_path))
    try:
        kit = find_kit(built.manifest.machine)
    finally:
        sys.path.remove(str(tmp_path))
    assert kit.manifest == built.manifest


def test_program_needs_nothing_that_is_not_in_the_kit(built: BuiltKit, tmp_path: Path) -> None:
    """Otherwise it would fail on a phone for want of a library. `readelf` is the oracle."""
    need_tool("readelf")
    with tarfile.open(
        fileobj=io.BytesIO(find_kit(built.manifest.machine, built.path).tar())
    ) as tar:
        tar.extractall(tmp_path, filter="data")
    directory = tmp_path / built.manifest.name
    program = directory / "bin/python3"
    dynamic, headers = (_readelf(option, program) for option in ("-d", "-l"))
    assert re.findall(r"\(RPATH\).*\[(.*)\]", dynamic) == ["$ORIGIN/../lib"]
    [loader] = re.findall(r"interpreter: (.*)\]", headers)
    assert loader.startswith(f"{PLACE}/{built.manifest.name}/lib/ld-linux")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed >= {"libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6"}
    names = {path.name for path in (directory / "lib").iterdir()}
    for path in directory.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", _readelf("-d", path)))
            assert needed <= names, path
            assert not re.search(r"GNU_STACK.* RWE ", _readelf("-l", path)), path
            _check_pages(path)


def _readelf(option: str, path: Path) -> str:
    words = ["readelf", "-W", option, str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _check_pages(path: Path) -> None:
    """Check that `read_elf` finds what the program headers show."""
    loads = re.findall(r"LOAD\s+(0x\w+) (0x\w+) .* (0x\w+)\n", _readelf("-l", path))
    elf = read_elf(path.read_bytes())
    assert elf is not None
    limit = min(int(align, 16) for _, _, align in loads)
    assert elf.alignment_bytes == limit >= PAGE_BYTES[elf.machine], path
    assert all((int(offset, 16) - int(address, 16)) % limit == 0 for offset, address, _ in loads)


def test_what_no_agent_needs_is_left_out(built: BuiltKit) -> None:
    """Otherwise a kit would contain its tests and `turtle.py`, and be half as large again."""
    paths = {file.path for file in built.manifest.files}
    assert any(path.endswith("/encodings/utf_8.py") for path in paths)
    assert not any("/test/" in path or path.endswith("turtle.py") for path in paths)
    assert built.unlicensed == ()


def test_kit_for_another_machine_is_refused(built: BuiltKit) -> None:
    """Otherwise 30 MB would be sent, only to fail with "not executable"."""
    with pytest.raises(NotAKit, match=r"is for \w+, not for riscv64"):
        find_kit("riscv64", built.path)


def test_no_kit_is_an_error_with_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise the hint would build a kit for another machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(KitMissing) as caught:
        find_kit("armv8l")
    assert caught.value.machine == "armv7l"


def test_kit_that_was_made_here_is_found(
    built: BuiltKit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise each deploy would need the path of the file."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    place = kits.kits_directory() / built.manifest.machine
    place.mkdir(parents=True)
    (place / built.path.name).write_bytes(built.path.read_bytes())
    assert find_kit(built.manifest.machine).manifest == built.manifest


def _changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    def write(source: Path, target: Path) -> None:
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
            for member in old.namelist():
                data = old.read(member)
                new.writestr(member, change(data) if member == name else data)

    return write


def _with(**fields: object) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(json.loads(data) | fields).encode()


DAMAGES: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "cut off": (lambda old, new: _write(new, old.read_bytes()[:-100]), "File is not a zip file"),
    "empty": (lambda _, new: _write(new, b""), "File is not a zip file"),
    "no zip": (lambda _, new: _write(new, b"x" * 10_000), "not a kit"),
    "absent": (lambda _, new: None, "No such file"),
    "a directory": (lambda _, new: new.mkdir(), "Is a directory"),
    "another wheel": (_changed(MANIFEST, lambda _: b"{}"), "another version"),
    "manifest is no JSON": (_changed(MANIFEST, lambda _: b"{"), "damaged"),
    "manifest is deep": (_changed(MANIFEST, lambda _: b"[" * 100_000), "damaged"),
    "newer format": (_changed(MANIFEST, _with(format=2)), "another version"),
    "name leads elsewhere": (_changed(MANIFEST, _with(name="../../../../etc")), "damaged"),
    "another place": (_changed(MANIFEST, _with(place="/data")), "not for"),
    "size of a bomb": (_changed(MANIFEST, _with(unpacked_bytes=2**40)), "larger than"),
    "archive changed": (_changed(ARCHIVE, lambda data: data[:-1] + b"x"), "does not match"),
}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_kit_is_refused_in_one_line(damage: str, built: BuiltKit, tmp_path: Path) -> None:
    """Otherwise the user would get a traceback, or the phone half of a Python."""
    make, reason = DAMAGES[damage]
    path = tmp_path / "kit.whl"
    make(built.path, path)
    with pytest.raises(NotAKit, match=reason) as caught:
        find_kit(built.manifest.machine, path)
    assert "\n" not in str(caught.value)


def test_archive_that_unpacks_to_more_is_refused(built: BuiltKit, tmp_path: Path) -> None:
    """Otherwise a small file could take all memory of the host."""
    bomb = lzma.compress(bytes(64 * 2**20), preset=0)
    fields = {"archive_sha256": hashlib.sha256(bomb).hexdigest(), "unpacked_bytes": 1000}
    once, path = tmp_path / "once.whl", tmp_path / "kit.whl"
    _changed(MANIFEST, _with(**fields))(built.path, once)
    _changed(ARCHIVE, lambda _: bomb)(once, path)
    kit = find_kit(built.manifest.machine, path)
    with pytest.raises(NotAKit, match="unpacks to more"):
        kit.tar()


def test_root_without_python_is_refused(tmp_path: Path) -> None:
    """Otherwise the user would not learn where Python was looked for."""
    with pytest.raises(KitNotBuilt, match="no Python in"):
        build_kit(Root(tmp_path), tmp_path)


def test_root_for_another_machine_is_refused(tmp_path: Path) -> None:
    """Otherwise a kit for a phone would be made of this computer's files."""
    with pytest.raises(KitNotBuilt, match="not for riscv64"):
        build_kit(PartOfThisMachine(), tmp_path, machine="riscv64")


def test_command_prints_what_it_made(
    built: BuiltKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Otherwise a script could not read a kit's packages, or the next step would be wrong.

    The same packages give the same bytes, or it could not be verified what a kit was made from.
    """
    monkeypatch.setattr(command, "Root", lambda _: PartOfThisMachine())
    words = ["kit", "build", "--root", "/", "--output", str(tmp_path / "a kit.whl")]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifest"]["name"] == built.manifest.name
    data = (tmp_path / "a kit.whl").read_bytes()
    assert document["size_bytes"] == len(data)
    assert data == built.path.read_bytes()
    monkeypatch.setattr(build, "build_kit", lambda *_, **__: built)
    assert main(words) == 0
    assert f"adb:SERIAL --kit {built.path}\n" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--machine", "riscv64"], ["--root", "/nowhere"]])
def test_wrong_word_is_refused_before_anything_is_fetched(
    words: list[str], capsys: Captured
) -> None:
    """Otherwise the command would fail after a minute, or with a traceback."""
    assert main(["kit", "build", *words]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
