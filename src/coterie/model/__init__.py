"""A trained model as a file that describes itself, and its uses: predict, show, publish, export.

It may know problems (columns, feature steps) and nothing of how a model was trained: that comes as plain values.
Importing it needs NumPy and msgspec alone.
"""

from coterie.model.predictor import TrainedModel, load
from coterie.model.rows import OutOfRange

__all__ = ["OutOfRange", "TrainedModel", "load"]
