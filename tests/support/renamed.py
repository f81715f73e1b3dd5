"""Builds of a runtime under other names: the library of this environment, with other metadata."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def renamed_runtime(
    folder: Path, name: str | None, version: str, *, module: str = "onnxruntime"
) -> Path:
    """Fill a directory with the module of this environment; PYTHONPATH makes it the one found.

    Args:
        folder: The directory.
        name: Name of its package; None: it has no metadata, as a build tree.
        version: Version of module and package.
        module: The module.
    """
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    real, copy = Path(spec.origin).parent, folder / module
    copy.mkdir(parents=True)
    for path in real.iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (copy / path.name).symlink_to(path)
    text = (real / "__init__.py").read_text()
    (copy / "__init__.py").write_text(f"{text}\n__version__ = {version!r}\n")
    if name is not None:
        metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        (metadata / "RECORD").write_text(f"{module}/__init__.py,,\n")
    return folder
