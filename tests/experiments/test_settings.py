"""A protocol's settings are checked against the types it declares."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import pytest

from coterie.errors import InputError
from coterie.experiments.settings import typed
from coterie.protocols import PROTOCOLS

Way: TypeAlias = Literal["slow", "fast"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    rounds: int | None = None
    rate: float = 0.5
    way: Way | None = None
    name: str = ""
    exact: bool = False
    caps: int | tuple[int, ...] | None = None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rounds": 3}, {"rounds": 3}),
        ({"rate": 1}, {"rate": 1.0}),
        ({"way": "fast"}, {"way": "fast"}),
        ({"name": "x", "exact": True}, {"name": "x", "exact": True}),
        ({"caps": [1, 2]}, {"caps": (1, 2)}),
        ({"caps": 4}, {"caps": 4}),
        ({"nobody": object}, {"nobody": object}),
    ],
)
def test_what_fits(given, expected):
    found = typed("p", given, Settings)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rounds": 2.5}, r"^p\.rounds=2\.5: must be a whole number\.$"),
        ({"rounds": True}, r"^p\.rounds=True: must be a whole number\.$"),
        ({"rounds": "many"}, r"^p\.rounds='many': must be a whole number\.$"),
        ({"rate": float("nan")}, r"^p\.rate=nan: must be a finite number\.$"),
        ({"rate": float("inf")}, r"^p\.rate=inf: must be a finite number\.$"),
        ({"way": "odd"}, r"^p\.way='odd': must be one of slow, fast\.$"),
        ({"name": 3}, r"^p\.name=3: must be text\.$"),
        ({"exact": 1}, r"^p\.exact=1: must be true or false\.$"),
        ({"caps": [1, "x"]}, r"^p\.caps='x': must be a whole number\.$"),
        ({"caps": "x"}, r"^p\.caps='x': must be a whole number or a list of one for each owner\.$"),
    ],
)
def test_what_does_not(given, message):
    with pytest.raises(InputError, match=message):
        typed("p", given, Settings)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_registered_protocol_accepts_its_own_defaults(protocol):
    known = PROTOCOLS[protocol].settings
    defaults = {key: value for key, value in vars(known()).items() if value is not None}
    assert typed(protocol, defaults) == defaults


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_registered_protocol_refuses_nonsense_in_words(protocol):
    known = PROTOCOLS[protocol].settings
    for key in vars(known()):
        with pytest.raises(InputError, match=rf"^{protocol}\.{key}={{}}: must be "):
            typed(protocol, {key: {}})
