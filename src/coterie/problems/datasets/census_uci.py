"""UCI Adult, and its LIBSVM form a9a. Code lists and order from adult.names; the original split of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coterie.problems.datasets._encode import Category, Numeric, Plain, encode
from coterie.problems.datasets._files import frame_of
from coterie.problems.datasets._table import Loaded

_NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip
# The survey top-codes ages at 90 and gains at 99,999, and gives hours two digits; 4,500 for losses is a round
# number set by hand with the public file in view. fnlwgt is a sampling weight, not a feature.
FIELDS = (
    Numeric("age", 17, 90, unit="years"),
    Numeric("education-num", 1, 16),
    Numeric("capital-gain", 0, 99_999, log=True, unit="dollars"),
    Numeric("capital-loss", 0, 4_500, log=True, unit="dollars"),
    Numeric("hours-per-week", 1, 99, unit="hours"),
    Category("workclass", ("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov",
                           "State-gov", "Without-pay", "Never-worked")),
    Category("education", ("Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm",
                           "Assoc-voc", "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate",
                           "5th-6th", "Preschool")),
    Category("marital-status", ("Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
                                "Married-spouse-absent", "Married-AF-spouse")),
    Category("occupation", ("Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
                            "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
                            "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
                            "Armed-Forces")),
    Category("relationship", ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative",
                              "Unmarried")),
    Category("race", ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")),
    Category("sex", ("Female", "Male")),
    Category("native-country", (
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
        "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland",
        "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary",
        "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador", "Trinadad&Tobago",
        "Peru", "Hong", "Holand-Netherlands")),
)  # fmt: skip


def adult(folder: Path) -> Loaded:
    """The complete rows of Adult (45,222 over both files); its own split."""
    import pandas as pd

    def read(file: str, skip: int):
        return frame_of(
            folder / "adult" / file, names=list(_NAMES), skipinitialspace=True, skiprows=skip, na_values="?"
        )

    train, test = read("adult.data.gz", 0).dropna(), read("adult.test.gz", 1).dropna()
    frame = pd.concat([train, test], ignore_index=True)
    columns = {name: frame[name].to_numpy() for name in _NAMES}
    above = frame["income"].str.startswith(">50K").to_numpy()
    return Loaded(encode(columns, FIELDS), above, np.arange(len(frame)) >= len(train))


def a9a(folder: Path) -> Loaded:
    """The 123 binary columns that LIBSVM made of Adult; its own split."""
    (x, y), (x_test, y_test) = (read_libsvm(folder / "a9a" / name, 123) for name in ("a9a.gz", "a9a.t.gz"))
    columns = tuple(f"x{index}" for index in range(1, 124))
    both = np.concatenate([x, x_test])
    encoded = encode(dict(zip(columns, both.T)), tuple(Plain(name, 0, 1) for name in columns))
    return Loaded(encoded, np.concatenate([y, y_test]) > 0, np.arange(len(both)) >= len(x))


def read_libsvm(path: Path, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A LIBSVM text file (gzip) as dense float32 rows and its labels; indices are from 1."""
    from sklearn.datasets import load_svmlight_file

    read: Any = load_svmlight_file  # scikit-learn's annotations refuse float32 and zero_based=False
    sparse, labels = read(str(path), n_features=dim, dtype=np.float32, zero_based=False)
    return sparse.toarray(), labels
