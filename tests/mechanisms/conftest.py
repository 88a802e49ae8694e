"""What several files of tests of the C function share."""

import ctypes
from importlib.util import find_spec

import pytest

from coterie.mechanisms import onepass


def widths() -> list[int]:
    """The vectors of this processor: narrower ones are there where wider ones are."""
    return {"coterie_onepass_64": [32, 64], "coterie_onepass_32": [32]}.get(onepass.available() or "", [])


@pytest.fixture(params=widths(), ids="{} bytes".format)
def width(request, monkeypatch) -> int:
    built = find_spec("coterie.mechanisms._onepass")
    assert built is not None
    name = onepass.register(ctypes.CDLL(built.origin), request.param)
    monkeypatch.setattr(onepass, "available", lambda: name)
    return request.param
