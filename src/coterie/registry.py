"""Names and what they stand for: protocols, losses, models, data sets, topologies and feature maps alike.

A name is coterie's own, one that a call registered, or an entry point of an installed distribution; and a value that
somebody hands over in a name's place goes by the name that it has itself, with `own:` before it. Entry points are read
when a name is first looked up, and one of them is imported only when it is asked for by its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from numbers import Number
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from coterie import _check
from coterie.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Row = TypeVar("Row")
MARK = "own:"  # before the name of a value that was handed over: never one of coterie's own


class Own(str):
    """The name of a value that was handed over, with the value: text to whoever prints or writes it.

    >>> Own("mine", print), Own("mine", print).thing is print
    ('own:mine', True)
    """

    thing: Any
    made: Any  # what a registry made of it, once: functions must stay the same objects for `jit`

    def __new__(cls, name: str, thing: Any) -> Own:
        """`name` without the mark."""
        text = super().__new__(cls, MARK + name)
        text.thing, text.made = thing, None
        return text

    def __deepcopy__(self, memo: Any) -> Own:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Own, (self.removeprefix(MARK), self.thing)


def as_name(value: Any) -> Any:
    """A value that stands in a name's place as its name; what is no such value, such as text or a number, unchanged."""
    if value is None or isinstance(value, (str, bytes, Number)) or type(value) in (list, tuple, dict, set):
        return value
    own = getattr(value, "name", None) or getattr(value, "__name__", None) or type(value).__name__
    return Own(str(own).rpartition(".")[2].strip("<>"), value)


class Registry(Mapping[str, Row], Generic[Row]):
    """What each name stands for. `made` turns what was registered into a row, or raises InputError.

    Looking at names imports nothing; a name that somebody else's package has is imported when it is asked for.
    """

    def __init__(
        self, what: str, group: str, made: Callable[[str, Any], Row], own: Mapping[str, Any]
    ) -> None:
        """`what` is the argument that takes the name; `group` is that of the entry points."""
        self.what, self.group, self._made = what, group, made
        self._own = {name: made(name, thing) for name, thing in own.items()}
        self._others: dict[str, Row] = {}  # registered by a call, and entry points that were loaded

    def register(self, name: str, thing: Any) -> None:
        """Add one; a name that is taken, or a thing of another kind, is an error."""
        if not name.isidentifier():
            raise InputError(f"name={name!r}: must be one word of letters, digits and '_'.")
        if name in self:
            raise InputError(f"{self.what}={name!r}: there is one of that name already. Take another name.")
        self._others[name] = self._made(name, thing)

    def find(self, name: str) -> Row:
        """What the name stands for; InputError says which names there are, or what is wrong with a plug-in."""
        if isinstance(name, Own):
            if name.made is None:
                name.made = self._made(name, name.thing)
            return name.made
        if name.startswith(MARK):
            return self._handed_over(name.removeprefix(MARK))
        if name not in self:
            _check.one_of(self.what, name, self)
        if name in self._own:
            return self._own[name]
        if name not in self._others:
            self._others[name] = self._loaded(name, self._plugins[name])
        return self._others[name]

    def is_own(self, name: str) -> bool:
        """Whether the name is one of coterie's own."""
        return name in self._own

    def origin(self, name: str) -> str:
        """The distribution that has the name as an entry point; empty for coterie's own and for registered ones."""
        found = self._plugins.get(name, [])
        return "" if name in self._own or not found else _distribution(found[0])

    def __getitem__(self, name: str) -> Row:
        if name not in self:
            raise KeyError(name)
        return self.find(name)

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or name in self._own or name in self._others

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *self._others, *self._plugins)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<Registry {self.group}: {', '.join(self)}>"

    @cached_property
    def _plugins(self) -> dict[str, list[EntryPoint]]:
        """The entry points of all installed distributions, by name; read once."""
        from importlib.metadata import entry_points

        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            found.setdefault(entry.name, []).append(entry)
        for name in set(found) & set(self._own):
            warnings.warn(
                f"{self.what}={name!r}: means coterie's own; the entry point of that name of "
                f"{_distribution(found[name][0])} is not used. Rename it there.",
                stacklevel=5,  # whoever looked the name up
            )
        return found

    def _loaded(self, name: str, entries: list[EntryPoint]) -> Row:
        if len(entries) > 1:
            both = " and ".join(sorted(map(_distribution, entries)))
            raise InputError(f"{self.what}={name!r}: is an entry point of {both}. Uninstall one of them.")
        whose = f"the plug-in {_distribution(entries[0])} (entry point {name} = {entries[0].value})"
        try:
            return self._made(name, entries[0].load())
        except InputError as error:
            raise InputError(f"{self.what}={name!r}: {whose} cannot be used: {error}") from error
        except (Exception, SystemExit) as error:  # whatever somebody's module does when it is imported
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"{self.what}={name!r}: {whose} cannot be loaded ({why}). Repair or uninstall it."
            ) from error

    def _handed_over(self, name: str) -> Row:
        """What a file calls `own:name`: registered since, or a plug-in; never coterie's own."""
        if name in self and not self.is_own(name):
            return self[name]
        raise InputError(
            f"{self.what}={MARK + name!r}: was a value in somebody's program, which no file holds. "
            f"Register it first: coterie.register({self.what!r}, {name!r}, …)."
        )


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed distribution"
