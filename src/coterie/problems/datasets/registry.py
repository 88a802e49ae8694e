"""The data sets by name: loaders, files and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.problems.datasets._files import File, data_dir, verified
from coterie.problems.table import Table, Task
from coterie.registry import Registry
from coterie.units import RECORD, Unit


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """How to read one data set. `loader` takes the folder of its files and gives a `Table`.

    It is "module.function" where it is one of coterie's own, imported when it is called.
    """

    loader: str | Callable[[Path | None], Table]
    task: Task
    description: str = ""
    licence: str = "none stated"
    origin: str = "a plug-in"
    files: tuple[File, ...] = ()
    owners: str = ""  # the natural owner, when there is one
    units: tuple[
        str, ...
    ] = ()  # columns that say whom a row is about: `loader` takes the unit as a second argument


def load(name: str, data_dir: str | Path | None = None, unit: Unit = RECORD) -> Table:
    """Read a data set by name, its files' checksums verified first.

    >>> table = load("census")
    >>> table.x.shape, len(table.owner_names)
    ((27530, 75), 20)
    """
    _check_unit(name, unit)
    loader, folder = DATASETS.find(name).loader, check(name, data_dir)
    if isinstance(loader, str):
        module, function = loader.split(".")
        loader = getattr(import_module(f"{__package__}.{module}"), function)
    table = loader(folder, unit) if unit.kind == "column" else loader(folder)  # type: ignore[call-arg]
    if not isinstance(table, Table):
        raise InputError(f"data={name!r}: its loader gave a {type(table).__name__}, where a Table is due.")
    return table


def _check_unit(name: str, unit: Unit) -> None:
    known = DATASETS.find(name).units
    if unit.kind == "column" and unit.column not in known:
        has = f"Known there: {', '.join(known)}." if known else "It has none: use record or owner."
        raise InputError(f"unit={str(unit)!r}: {name} has no such column of persons. {has}")
    if unit.latest is not None:
        raise InputError(f"latest={unit.latest!r}: {name} has no dates. Leave it out.")


def check(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Verify every file of a data set; the folder they are in, or None for the embedded set."""
    entry = DATASETS.find(name)
    if not entry.files:
        return None
    folder = _folder(data_dir)
    for file in entry.files:
        verified(file, folder)
    return folder


_folder = data_dir  # the argument of the same name hides the function
_UCI = "UCI Machine Learning Repository"

_OWN: dict[str, Dataset] = {
    "census": Dataset(
        loader="census.load",
        task="binary",
        description="income above 50,000 dollars, adults at work 1994-95 (embedded)",
        licence="public domain (US Government work)",
        origin="embedded; built by scripts/build_census.py",
        owners="industry",
    ),
    "a9a": Dataset(
        loader="census_uci.a9a",
        task="binary",
        description="Adult as 123 binary columns",
        licence="CC BY 4.0 (UCI Adult)",
        origin="LIBSVM data page",
        files=(
            File("a9a/a9a.gz", "e668fbe4c7500e831ef62fbabfc4a7d22b35b6f611fbf80eca77efcdf528a9f0"),
            File("a9a/a9a.t.gz", "d52d0c91c3f108f1bf34e4af73003a01ce19c3fcf099f319f084ebb349b8d16c"),
        ),
    ),
    "adult": Dataset(
        loader="census_uci.adult",
        task="binary",
        description="income above 50,000 dollars, complete rows",
        licence="CC BY 4.0",
        origin=_UCI,
        files=(
            File("adult/adult.data.gz", "fb9b6b419c38dd70d75d31f014b7f0905bf76e9625473c593455e31679a93184"),
            File("adult/adult.test.gz", "5dd8e51005f6a86e42f058d66a957721196362cf8e8dde3efc8508532af4a083"),
        ),
    ),
    "bank": Dataset(
        loader="tabular.bank",
        task="binary",
        description="does a client subscribe a deposit",
        licence="CC BY 4.0 (Moro et al. 2014)",
        origin=_UCI,
        files=(
            File(
                "bank-marketing/bank-additional-full.csv.gz",
                "19d160205359e3f748931d09c670c755e4e66be9bf59e2f894f4f274ece9ce00",
            ),
        ),
    ),
    "breast_cancer": Dataset(
        loader="tabular.breast_cancer",
        task="binary",
        description="benign or malignant (Wisconsin, original), complete rows",
        licence="CC BY 4.0",
        origin=_UCI,
        files=(
            File(
                "breast-cancer-wisconsin/breast-cancer-wisconsin.data",
                "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
            ),
        ),
    ),
    "credit_card": Dataset(
        loader="tabular.credit_card",
        task="binary",
        description="card fraud, 492 of 284,807",
        licence="DbCL 1.0 (ULB Machine Learning Group)",
        origin="Kaggle mlg-ulb/creditcardfraud, as Parquet",
        files=(
            File(
                "creditcard/creditcard.parquet",
                "f2506aaa560b2c6cb955719f57058423f782612cd9ba2ba59f43e62c5cf7a325",
            ),
        ),
    ),
    "credit_card_balanced": Dataset(
        loader="tabular.credit_card_balanced",
        task="binary",
        description="card fraud, 492 and 492",
        licence="DbCL 1.0 (ULB Machine Learning Group)",
        origin="rows of Kaggle mlg-ulb/creditcardfraud",
        files=(
            File(
                "creditcard/creditcard_balanced984.csv.gz",
                "120d56c08a703289b1c93d452a849784e5d904fea0da2efa7d6042ae7f9b1df3",
            ),
        ),
    ),
    "covtype": Dataset(
        loader="tabular.covtype",
        task="binary",
        description="forest cover, lodgepole pine against the rest",
        licence="CC BY 4.0",
        origin=_UCI,
        files=(
            File(
                "covtype/covtype.data.gz", "2f4699c4a30562e16f09a029d7e7a7250cbc7b16f71eac075ceb6fe871c239dc"
            ),
        ),
    ),
    "covtype7": Dataset(
        loader="tabular.covtype7",
        task="multiclass",
        description="forest cover, seven kinds",
        licence="CC BY 4.0",
        origin=_UCI,
        files=(
            File(
                "covtype/covtype.data.gz", "2f4699c4a30562e16f09a029d7e7a7250cbc7b16f71eac075ceb6fe871c239dc"
            ),
        ),
    ),
    "kddcup99": Dataset(
        loader="intrusion.kddcup99",
        task="binary",
        description="network connections, normal against attack (10 % file)",
        licence="CC BY 4.0",
        origin=_UCI,
        files=(
            File(
                "kddcup99/kddcup.data_10_percent.gz",
                "8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561",
            ),
        ),
    ),
    "bigmart": Dataset(
        loader="retail.bigmart",
        task="regression",
        description="sales of a product in an outlet",
        licence="none stated",
        origin="Analytics Vidhya practice problem",
        files=(
            File("bigmart/Train.csv.gz", "6684e844e02fd02043dffd7251d60ef0d251a2887a56fdc9d1a3c14f7276d4c6"),
        ),
        owners="outlet",
    ),
    "blackfriday": Dataset(
        loader="retail.blackfriday",
        task="regression",
        description="amount of a purchase, first 19,280 rows",
        licence="none stated",
        origin="Analytics Vidhya / Kaggle",
        files=(
            File(
                "blackfriday/BlackFriday_first19280.csv.gz",
                "0d41925b18cf08fd576d0493beb01f3bf13d26c402099d9805969c4f002ce98c",
            ),
        ),
        units=("User_ID",),
    ),
    "lending_club": Dataset(
        loader="loans.lending_club",
        task="regression",
        description="interest rate of a resolved loan",
        licence="none stated (LendingClub statistics)",
        origin="gedeck/practical-statistics-for-data-scientists, full_train_set, two columns derived",
        files=(
            File(
                "lending-club/lending_club_full_train_set.parquet",
                "d44b469fe938862eb21900a59ff8b9aaaf50464e10a8ffe630f1d864455fa103",
            ),
        ),
    ),
    "lending_club_states": Dataset(
        loader="loans.lending_club_states",
        task="regression",
        description="interest rate of a loan of early 2018",
        licence="CC BY-SA 3.0 (OpenIntro)",
        origin="R package openintro, loans_full_schema",
        files=(
            File(
                "lending-club/loans_full_schema.csv.gz",
                "0cb20b6b3db6b88db766171fd25734d312d67fdc56e0d7e63810424320df904e",
            ),
        ),
        owners="state",
    ),
    "sba_loans": Dataset(
        loader="loans.sba_loans",
        task="binary",
        description="was a guaranteed business loan charged off",
        licence="public (Li, Mickel and Taylor 2018)",
        origin="SBAnational.csv without business names, as Parquet",
        files=(
            File(
                "sba-loans/SBAnational.parquet",
                "03f769048aed7dcfa62576450b4b6a5438f2723f35cc485442b711685e2d4b13",
            ),
        ),
        owners="state",
    ),
    "sparcs": Dataset(
        loader="hospitals.sparcs",
        task="regression",
        description="length of stay, every 29th discharge of 2009-2020",
        licence="NY State Open Data",
        origin="health.data.ny.gov, aggregated by facility",
        files=(
            File(
                "sparcs/sparcs_discharges_by_facility_2009_2020.parquet",
                "33bde49436406487d4bd9f62ee8abe7f94017b1252c5bb690381e2ba28f84827",
            ),
        ),
        owners="hospital",
    ),
    "sparcs_records": Dataset(
        loader="hospitals.sparcs_records",
        task="regression",
        description="length of stay, 1,000 single discharges of 2016",
        licence="NY State Open Data",
        origin="health.data.ny.gov, a random sample",
        files=(
            File(
                "sparcs/sparcs_2016_records_1000.csv.gz",
                "afddbfb8b189925674a7b8a950c770635c97161bd3dffc9e849cfc8b5c9a0f7c",
            ),
        ),
        owners="hospital",
    ),
    "mnist": Dataset(
        loader="images.mnist",
        task="multiclass",
        description="handwritten digits, 28 x 28",
        licence="CC BY-SA 3.0",
        origin="LeCun, Cortes and Burges",
        files=(
            File(
                "mnist/train-images-idx3-ubyte.gz",
                "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
            ),
            File(
                "mnist/train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            File(
                "mnist/t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            File(
                "mnist/t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "cifar10": Dataset(
        loader="images.cifar10",
        task="multiclass",
        description="photographs of ten kinds, 32 x 32 x 3",
        licence="none stated (Krizhevsky 2009)",
        origin="CIFAR-10 binary version, each file compressed with xz",
        files=(
            File(
                "cifar-10/data_batch_1.bin.xz",
                "04aefebe8f6f4a57905fa3d6caa63e3102a0bae5bc27608601a25efd9b6ae87e",
            ),
            File(
                "cifar-10/data_batch_2.bin.xz",
                "7f8a1e1b398af90a940ec80a745cb515cbd46ad8cf2f402b6a7c73cce931838c",
            ),
            File(
                "cifar-10/data_batch_3.bin.xz",
                "3d47bd17d4cb9387e6e0d4c32f36431d42c6f610a71c55f3007bbb09afcd08fb",
            ),
            File(
                "cifar-10/data_batch_4.bin.xz",
                "125c6727474f1afa3f224fa03d923fdda853384a27f3b182197e1168273e5053",
            ),
            File(
                "cifar-10/data_batch_5.bin.xz",
                "78140628698388e5869bf6f723da8ffdcd817f34e183e7603e8fe3a252623c6f",
            ),
            File(
                "cifar-10/test_batch.bin.xz",
                "24c3edbcccdba885334551ccabf9fb971acc547b2616340f1f00ce9148b332cf",
            ),
        ),
    ),
    "epsilon": Dataset(
        loader="tabular.epsilon",
        task="binary",
        description="excerpt of epsilon, 5,000 x 100",
        licence="none stated (Pascal challenge 2008)",
        origin="FATE examples",
        files=(
            File(
                "epsilon-subset/epsilon_5k.csv.gz",
                "26cd4decc787faf61146ab3e25fb1b804c7ee6c1bd4818a5df84a2cc9e090de1",
            ),
        ),
    ),
}


def _entry(name: str, thing: Any) -> Dataset:
    if not isinstance(thing, Dataset):
        raise InputError(
            f"data={name!r}: is a {type(thing).__name__}; must be a coterie.problems.datasets.Dataset, with a loader "
            "(folder) that gives a Table, and its task."
        )
    return thing


DATASETS: Registry[Dataset] = Registry("data", "coterie.data", _entry, _OWN)
