"""MNIST (IDX, gzip) and CIFAR-10 (binary batches, xz) from their original formats, pixels scaled by 1/255."""

from __future__ import annotations

import gzip
import lzma
import struct
from pathlib import Path

import numpy as np

from coterie.errors import InputError
from coterie.problems.table import Table

_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PIXEL = np.array([[0.0, 1.0]], np.float32)


def mnist(folder: Path) -> Table:
    """Handwritten digits, 28 x 28, with the original split."""

    def read(part: str) -> tuple[np.ndarray, np.ndarray]:
        images = read_idx(folder / f"mnist/{part}-images-idx3-ubyte.gz")
        return images, read_idx(folder / f"mnist/{part}-labels-idx1-ubyte.gz")

    classes = tuple(str(digit) for digit in range(10))
    return _images("mnist", read("train"), read("t10k"), classes, "LeCun, Cortes and Burges (CC BY-SA 3.0)")


def cifar10(folder: Path) -> Table:
    """Small photographs, 32 x 32 x 3, with the original split."""
    parts = [read_cifar(folder / f"cifar-10/data_batch_{batch}.bin.xz") for batch in range(1, 6)]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts))
    test = read_cifar(folder / "cifar-10/test_batch.bin.xz")
    return _images("cifar10", (images, labels), test, _CIFAR_CLASSES, "Krizhevsky (2009)")


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of unsigned bytes: two zeros, type 8, the number of axes, their lengths, the data."""
    raw = gzip.decompress(path.read_bytes())
    axes = raw[3] if raw[:3] == b"\x00\x00\x08" else 0
    shape = struct.unpack_from(f">{axes}I", raw, 4) if axes else ()
    if not axes or len(raw) != 4 + 4 * axes + int(np.prod(shape)):
        raise InputError(f"{path}: not an IDX file of unsigned bytes. Fetch the file again.")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def read_cifar(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A binary batch: a label byte, then 1,024 red, 1,024 green and 1,024 blue bytes, for each image."""
    raw = np.frombuffer(lzma.decompress(path.read_bytes()), np.uint8)
    if raw.size == 0 or raw.size % 3073:
        raise InputError(f"{path}: {raw.size} bytes are not whole records of 3,073. Fetch the file again.")
    records = raw.reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def _images(name, train, test, classes: tuple[str, ...], source: str) -> Table:
    return Table(
        name=name,
        task="multiclass",
        x=_unit(train[0]),
        y=train[1].astype(np.int32),
        x_test=_unit(test[0]),
        y_test=test[1].astype(np.int32),
        columns=("pixel",),
        bounds=_PIXEL,
        classes=classes,
        target="picture",
        source=source,
    )


def _unit(pixels: np.ndarray) -> np.ndarray:
    """Pixels in [0, 1], in float32 throughout: a float64 copy of CIFAR-10 would take more than a gigabyte."""
    return np.multiply(pixels, np.float32(1 / 255), dtype=np.float32)
