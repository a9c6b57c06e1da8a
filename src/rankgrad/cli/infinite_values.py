"""Count the infinite values of a table, for `rankgrad inspect`. Readers change these values to NaN."""

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankgrad.cli.data_source import DataSource


def warn_of_infinities(source: "DataSource") -> None:
    """Warn about the infinite values of each feature of a table. Other data is not read again."""
    from rankgrad.data import Columns
    from rankgrad.data.tables.columns import choose
    from rankgrad.data.tables.files import open_table

    if (path := source.table_path()) is None:
        return
    import pyarrow as pa
    import pyarrow.compute as compute

    table = open_table(path, source.format)
    chosen = choose(source.columns or Columns(), table.numeric, partitions=table.partitions, typed=table.typed)
    counts = {name: 0 for name in chosen.features if name not in chosen.categorical}
    for batch in table.batches([*counts]) if counts else ():
        for name in counts:
            column = batch.column(name)
            if pa.types.is_floating(column.type):
                counts[name] += compute.sum(compute.is_inf(column)).as_py() or 0
    if found := {name: count for name, count in counts.items() if count}:
        shown = ", ".join(f"{name!r} {count:,}" for name, count in found.items())
        warnings.warn(f"{path}: infinite values, which are counted as missing: {shown}", stacklevel=2)
