"""dp-accounting without SciPy, which it imports whole, until something is asked for that SciPy computes.

A process that charges events and certifies nothing but Gaussians (`gaussian.py`) needs the library's events alone; of
what importing it takes, SciPy is nine tenths. The library's own accountants find the real SciPy when they call it.
"""

from __future__ import annotations

import importlib
import sys
from functools import reduce
from types import ModuleType
from typing import Any

_PARTS = ("fft", "optimize", "signal", "special", "stats")


class _Late(ModuleType):
    """Stands for a module of SciPy, or something in it, and imports that when anything of it is looked up."""

    def __init__(self, module: str, *names: str) -> None:
        super().__init__(module)
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system's own questions
            raise AttributeError(name)
        if isinstance(sys.modules.get(self.__name__), _Late):
            # The library is being imported: it only keeps a name.
            return _Late(self.__name__, *self._names, name)
        return reduce(getattr, (*self._names, name), importlib.import_module(self.__name__))


def import_events() -> None:
    """Import dp-accounting with SciPy to come later. Does nothing where either is there already.

    The stand-ins are SciPy's modules only while the library is imported, and known to nobody else afterwards.
    """
    import scipy

    held = {f"scipy.{part}": part for part in _PARTS}
    if "dp_accounting" in sys.modules or any(name in sys.modules for name in held):
        return
    try:
        for name, part in held.items():
            sys.modules[name] = _Late(name)
            setattr(scipy, part, sys.modules[name])
        importlib.import_module("dp_accounting")
    finally:
        for name, part in held.items():
            if isinstance(sys.modules.get(name), _Late):
                del sys.modules[name]
                delattr(scipy, part)
