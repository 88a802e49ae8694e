"""`coterie export`: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import _shared as options


def export(
    model: options.ModelFile,
    onnx: Annotated[Path, typer.Option(help="Write the model here, as ONNX.")],
) -> None:
    """Write a model as ONNX: from rows as people have them to predictions, for any program that runs ONNX."""
    from coterie.model import format as files
    from coterie.model.onnx import to_onnx
    from coterie.model.predictor import from_bytes

    files.check_new("onnx", onnx)
    data, source = files.read(model)
    digest = files.unpack(data, source).sha256
    print(f"written: {files.write(onnx, to_onnx(from_bytes(data, source), digest), 'onnx')}")
