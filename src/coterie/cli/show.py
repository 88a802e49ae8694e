"""`coterie show`: what a model is, and its card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import _shared as options
from coterie.cli._common import print_json


def show(
    model: options.ModelFile,
    card: Annotated[Path | None, typer.Option(help="Write the model card here, in Markdown.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell what a model is, its largest weights by column, and what it cost in privacy."""
    from coterie.model import format as files
    from coterie.model import words
    from coterie.model.predictor import from_bytes

    if card is not None:
        files.check_new("card", card)
    data, source = files.read(model)
    trained, content = from_bytes(data, source), files.unpack(data, source)
    if card is not None:
        files.write(card, words.card(trained, content.sha256).encode("utf-8", "replace"), "card")
    if as_json:
        print_json(content.description | {"sha256": content.sha256})
    elif card is not None:
        print(f"written: {card}")
    else:
        print(words.shown(trained, content.sha256))
