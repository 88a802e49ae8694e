"""Data sets: the embedded one, the public ones from their original files, and the user's own."""

from coterie.problems.datasets._encode import encode, encoded_names
from coterie.problems.datasets._files import File
from coterie.problems.datasets.own import load_file
from coterie.problems.datasets.registry import DATASETS, Dataset, check, load
from coterie.problems.datasets.remote import load_openml
from coterie.problems.datasets.source import Source

__all__ = [
    "DATASETS",
    "Dataset",
    "File",
    "Source",
    "check",
    "encode",
    "encoded_names",
    "load",
    "load_file",
    "load_openml",
]
