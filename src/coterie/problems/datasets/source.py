"""A data set as a user names it: a known name, a file of one's own, or a name on OpenML."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from coterie import _check
from coterie.errors import InputError
from coterie.problems.datasets.declared import Columns, declared
from coterie.problems.datasets.memory import NAME, Records
from coterie.problems.datasets.own import load_file
from coterie.problems.datasets.registry import DATASETS, load
from coterie.problems.datasets.remote import load_openml
from coterie.problems.names import READERS
from coterie.problems.partition import Partition, partition
from coterie.problems.table import Table
from coterie.units import Unit, unit_of


class Source(NamedTuple):
    """What a user says about data. All but `data` are for rows of one's own, in a file or in memory."""

    data: str | Records
    target: str | None = None
    owner_column: str | None = None
    columns: Columns | None = None
    # Of privacy: record, column:NAME or owner; None: as the columns file says, or a record.
    unit: str | None = None
    records_per_unit: int | None = None
    unit_mean: bool = False
    latest: str | None = None

    @property
    def privacy_unit(self) -> Unit:
        """The unit that a certificate is to protect."""
        if self.columns is None:
            return unit_of(self.unit, self.records_per_unit, mean=self.unit_mean, latest=self.latest)
        declaration = declared(self.columns)
        return declaration.unit_with(self.unit, self.records_per_unit, self.unit_mean, self.latest)

    def table(self, data_dir: Path | None = None) -> Table:
        """Read it; what does not go together is an error, not ignored."""
        if isinstance(self.data, Records):
            return self.data.table(self.target, self.owner_column, self.columns, self.privacy_unit)
        if self.data == NAME:
            raise InputError(
                f"data={NAME!r}: these rows were given in Python, and no file has them. Give them again: "
                "Experiment(data=…)."
            )
        known, remote = self.data in DATASETS, self.data.startswith("openml:")
        for name in ("target", "owner_column", "columns") if known else ("target",) if remote else ():
            if (value := getattr(self, name)) is not None:
                raise InputError(
                    f"{name}={value!r}: is for a file of your own; {self.data} has its own. Leave it out."
                )
        if known:
            return load(self.data, data_dir, self.privacy_unit)
        if remote:
            return load_openml(self.data, self.owner_column, self.columns, unit=self.privacy_unit)
        if Path(self.data).suffix.lower() in READERS:
            return load_file(
                self.data, self.target, self.owner_column, columns=self.columns, unit=self.privacy_unit
            )
        raise InputError(
            f"data={self.data!r}: unknown. Name a CSV, Parquet or NPZ file, 'openml:NAME', or one of: "
            f"{', '.join(sorted(DATASETS))}."
            f"{_check.meant(self.data, DATASETS)}"
        )

    def divided(self, table: Table, how: str | None, owners: int | None, seed: int) -> Partition:
        """The rows by owner. Who names an owner column means those owners: a number then keeps the largest of them."""
        named = self.owner_column or (isinstance(self.data, Records) and self.data.owner)
        return partition(table, how or ("column" if named else None), owners, seed, self.privacy_unit)
