"""A trained model as a file that describes itself, and what one does with it: predict, show, publish, export.

It may know problems (columns, feature steps) and nothing of how a model was trained: whoever trained it says so in
plain values. Importing it needs NumPy alone.
"""

from coterie.model.predictor import TrainedModel, load
from coterie.model.rows import OutOfRange

__all__ = ["OutOfRange", "TrainedModel", "load"]
