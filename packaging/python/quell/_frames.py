"""Tables of recordings as frames of polars or pandas.

Each table is that of the trace, with these changes: a column `recording` comes first; rows that other tables name by number carry
that number, under the name that the other tables use; numbers of paths become text.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional, Protocol, Sequence, Tuple

if TYPE_CHECKING:
    import pandas
    import polars

# Columns that hold numbers of paths.
PATHS = {
    "events": ("path", "path2", "target", "target2"),
    "executions": ("program",),
    **dict.fromkeys(("descriptors", "links", "files", "elf", "stripes", "touched"), ("path",)),
}

# Tables whose rows are named by number, and the column of the others that does so.
ROWS = {"processes": "process", "threads": "thread", "executions": "execution", "mounts": "file_system"}

# The number of a recording, its directory, and the name of a table that it has.
Table = Tuple[int, Path, str]


class Library(Protocol):
    """Reads a table of several recordings."""

    def table(self, tables: Sequence[Table]) -> Any:
        """The rows of all recordings, in their order."""


def library(wanted: Optional[str]) -> Library:
    """The library that is wanted, or the first that is installed."""
    for name, modules, reader in (("polars", ["polars"], Polars), ("pandas", ["pandas", "pyarrow"], Pandas)):
        if wanted in (None, name):
            try:
                for module in modules:
                    importlib.import_module(module)
            except ImportError:
                continue
            return reader()
    packages = {"pandas": "pandas pyarrow"}.get(wanted or "", "polars")
    raise ImportError(f"frames need {wanted or 'polars or pandas'}: python3 -m pip install {packages}")


class Polars:
    """Lazy frames: nothing but the paths is read before `collect`, and then only the columns that are asked for."""

    def table(self, tables: Sequence[Table]) -> "polars.LazyFrame":
        import polars

        # A column that only some recordings have is null in the others.
        return polars.concat([self._one(*table) for table in tables], how="diagonal")

    @staticmethod
    def _one(number: int, directory: Path, name: str) -> "polars.LazyFrame":
        import polars

        row = ROWS.get(name)
        frame = polars.scan_parquet(directory / f"{name}.parquet", glob=False, row_index_name=row)
        columns: List[polars.Expr] = [polars.lit(number, dtype=polars.Int32).alias("recording")]
        if row is not None:
            columns.append(polars.col(row).cast(polars.Int32))
        if name in PATHS:
            # The number of a path is its row's place.
            texts = polars.read_parquet(directory / "paths.parquet", glob=False, columns=["path"])["path"]
            columns += [polars.lit(texts).gather(polars.col(column)).alias(column) for column in PATHS[name]]
        return frame.with_columns(columns).select("recording", polars.exclude("recording"))


class Pandas:
    """Frames whose columns keep their integers, because nulls are `NA`."""

    def table(self, tables: Sequence[Table]) -> "pandas.DataFrame":
        import pandas

        return pandas.concat([self._one(*table) for table in tables], ignore_index=True)

    @staticmethod
    def _one(number: int, directory: Path, name: str) -> "pandas.DataFrame":
        import pandas

        frame = pandas.read_parquet(directory / f"{name}.parquet", dtype_backend="numpy_nullable")
        if name in PATHS:
            paths = pandas.read_parquet(directory / "paths.parquet", columns=["path"], dtype_backend="numpy_nullable")["path"]
            for column in PATHS[name]:
                frame[column] = frame[column].map(paths).astype("string")
        if name in ROWS:
            frame.insert(0, ROWS[name], pandas.Series(range(len(frame)), dtype="Int32"))
        frame.insert(0, "recording", pandas.Series([number] * len(frame), dtype="Int32"))
        return frame
