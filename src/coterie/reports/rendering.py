"""Pages from the templates beside this module: all values are escaped, so that no name can become a script, and a
missing value is an error."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from coterie._rounding import at_most
from coterie.reports.amounts import many, number, percent

if TYPE_CHECKING:
    from jinja2 import Template


@lru_cache
def template(name: str, package: str = "coterie.reports") -> Template:
    """The template of that name; `package`: whose are looked at before ours, which they may extend."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, "coterie.reports"))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
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
    return environment.get_template(name)
