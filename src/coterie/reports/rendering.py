"""Pages from the templates beside this module: all values are escaped, so that no name can become a script, and a
missing value is an error."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from coterie._rounding import at_most
from coterie.reports.amounts import many, number, percent

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, /, package: str = "coterie.reports", **context: Any) -> str:
    """The page as text. `package`: whose templates are looked at before ours, which they may extend."""
    return _environment(package).get_template(template).render(context)


@lru_cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    names = dict.fromkeys((package, "coterie.reports"))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in names]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "many": many,
        "number": number,
        "percent": percent,
        "short": lambda value: f"{value:g}",  # a coordinate in a drawing
        "at_most": lambda epsilon: number(at_most(epsilon)),  # a certified ε, rounded up
        "sentence": lambda words: words[:1].upper() + words[1:],
    }
    return environment
