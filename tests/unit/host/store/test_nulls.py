"""A missing value in any column of a stored run is an error of edgebench, or a result."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgebench.host.bench.verify import rejudge, verify
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError

RUNS = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"
RUN_ID = "20261123-031049-420b03bc"
"""A run with a meter, which has every file."""
COLUMNS = [
    (path.name, column)
    for path in sorted((RUNS / RUN_ID).glob("*.parquet"))
    for column in pq.read_schema(path).names
]


@pytest.mark.parametrize(("file", "column"), COLUMNS)
def test_missing_value_is_an_error_with_a_name(tmp_path: Path, file: str, column: str) -> None:
    """Otherwise a received bundle would end every command in an internal error."""
    directory = tmp_path / "runs" / RUN_ID
    shutil.copytree(RUNS / RUN_ID, directory)
    table = pq.read_table(directory / file)
    values = table[column].to_pylist()
    values[len(values) // 2] = None
    place = table.schema.get_field_index(column)
    changed = pa.array(values, type=table[column].type)
    field = table.schema.field(place).with_nullable(True)
    pq.write_table(table.set_column(place, field, changed), directory / file)
    store = Store(tmp_path)
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (verify, rejudge):
            try:
                read(store, RUN_ID)
            except EdgebenchError as exc:
                texts.append(str(exc))
    assert not [text for text in texts if "\n" in text]
