"""`coterie predict`: a model's predictions for new rows, as CSV."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import _shared as options
from coterie.errors import InputError

if TYPE_CHECKING:
    from coterie.model import TrainedModel


def predict(
    model: options.ModelFile,
    file: Annotated[Path, typer.Argument(help="New rows: CSV, Parquet or NPZ, with the model's columns.")],
    out: Annotated[Path | None, typer.Option(help="CSV file to write; default: standard output.")] = None,
) -> None:
    """Predict new rows, in the target's own unit and class names: a row of CSV for each row of the file."""
    from coterie.model import OutOfRange, load
    from coterie.model.format import check_new, write

    if out is not None:
        check_new("out", out)
    trained = load(model)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", OutOfRange)
        rows, about = _rows(trained, file)
        text = predictions(trained, rows)
    if out is None:
        sys.stdout.write(text)
    else:
        print(f"written: {write(out, text.encode())}")
    for warning in warned:
        print(f"warning: {warning.message}", file=sys.stderr)
    for remark in about:
        print(f"your file: {remark}", file=sys.stderr)


def predictions(trained: TrainedModel, rows: Any) -> str:
    """CSV: the row's number, what is predicted, and the probability of each class where the model has them."""
    scores = trained.scores(rows)
    columns = [trained.decided(scores).tolist()]
    names = ["row", "prediction"]
    if trained.has_probabilities:
        columns += trained.probabilities(scores).T.tolist()
        names += [f"probability {name}" for name in trained.classes]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for number, (value, *shares) in enumerate(zip(*columns), 1):
        writer.writerow([number, _cell(value), *(f"{share:.6g}" for share in shares)])
    return text.getvalue()


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.7g}"


def _rows(trained: TrainedModel, file: Path) -> tuple[Any, tuple[str, ...]]:
    """The rows, and how their file was read."""
    from coterie.problems.datasets.frames import read_as, read_frame, seen
    from coterie.problems.datasets.pixels import stacked
    from coterie.problems.fields import is_text

    description = trained.description
    frame = read_frame(file, [field.name for field in description.fields if is_text(field)])
    about = tuple(filter(None, (read_as(frame), *seen(frame))))
    if not description.shape:
        return frame, about
    images = description.array
    if images not in frame.columns:
        raise InputError(
            f"file={str(file)!r}: has no images {images!r}. Give NPZ with an array {images!r} of (rows, "
            f"{', '.join(map(str, description.shape))}), or Parquet with such lists."
        )
    return stacked(frame[images], description.shape), about
