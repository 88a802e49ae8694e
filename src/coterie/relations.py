"""Which data sets are neighbours, as values: a relation, and all that follows from it.

A relation is text to whoever prints or stores it, and knows what accountants, audits, checks and statements have to ask
of it; so nothing in the tree compares the names of relations. What is said of a record holds for any unit of privacy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from coterie import _check
from coterie.units import OWNER, at_owners, noun_of, several

Direction: TypeAlias = Literal["remove", "add", "replace"]
UNIT = "record"  # what a neighbour differs in, and so what a certificate protects


class Relation(str):
    """A neighbouring relation."""

    reach: float  # clip norms that one step to a neighbour moves a clipped sum by
    directions: tuple[Direction, ...]  # in which a record can change
    # Whether neighbours have as many records; else how many there are is a secret, too.
    sizes_are_public: bool
    steps_to_replace: int  # how many steps lead from a record to any other in its place
    template: str  # of the words for a statement

    def __new__(
        cls, name: str, reach: float, directions: Iterable[Direction], steps_to_replace: int, template: str
    ) -> Relation:
        """The values above; sizes are public where a record can only be replaced."""
        relation = super().__new__(cls, name)
        relation.reach, relation.directions = reach, tuple(directions)
        relation.sizes_are_public = relation.directions == ("replace",)
        relation.steps_to_replace, relation.template = steps_to_replace, template
        return relation

    def words(self, unit: str = UNIT, owners: int = 1) -> str:
        """The words of a statement, for a unit in words at up to so many owners.

        >>> ADD_OR_REMOVE_ONE.words("patient with up to 5 records")  # doctest: +ELLIPSIS
        'two data sets are neighbours if one patient with up to 5 records of one owner is added or removed...'
        """
        noun = noun_of(unit)
        return self.template.format(
            one=f"one {at_owners(unit, owners)}"
            if noun == OWNER or owners > 1
            else f"one {unit} of one owner",
            noun=noun,
            many=several(unit),
            but="" if unit == UNIT else ", and how many records each of them has is not",
        )

    @property
    def in_dp_accounting(self) -> Any:
        """The library's own value for it."""
        from dp_accounting import NeighboringRelation

        return NeighboringRelation[self.upper()]

    def __reduce__(self) -> tuple[object, ...]:
        return named, (str(self),)

    def __deepcopy__(self, memo: object) -> Relation:
        return self


# Argument: a record's part of the sum has norm at most C. Replacing it takes C away and adds another C: 2 C at most.
REPLACE_ONE = Relation(
    "replace_one",
    2.0,
    ("replace",),
    1,
    "two data sets are neighbours if {one} is replaced by any other (replace-one); numbers of {many} are public{but}.",
)
# Argument: a record that comes or goes moves the sum by its own part, C at most.
ADD_OR_REMOVE_ONE = Relation(
    "add_or_remove_one",
    1.0,
    ("remove", "add"),
    2,
    "two data sets are neighbours if {one} is added or removed (add-or-remove-one). Replacing one {noun} is two such "
    "changes and costs about twice as much.",
)
RELATIONS: dict[str, Relation] = {str(relation): relation for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE)}


def named(name: str) -> Relation:
    """The relation of that name, or the relation itself.

    >>> named("add_or_remove_one").reach, named(REPLACE_ONE) is REPLACE_ONE
    (1.0, True)
    """
    return RELATIONS[_check.one_of("relation", name, RELATIONS)]
