"""One party's own file, `node.toml`: who it is, where it listens, whom it dials, and where its files are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from coterie.errors import InputError
from coterie.experiments.settings import Positive, Probability, fit
from coterie.federation.releases.randomness import Generator
from coterie.federation.transport.address import checked
from coterie.federation.transport.trust import checked_name

NAME = "node.toml"


@dataclass(frozen=True, kw_only=True)
class Party:
    """Paths are absolute here, and relative to the file's folder in the file, which has all fields but that one."""

    name: str
    listen: str | None = None  # host:port
    router: str | None = None
    proxy: str | None = None  # host:port of an HTTP proxy, through which this party dials everybody
    generator: Generator = "exact"
    epsilon: Positive | None = None  # the ledger's budget over all runs; None: the agreement's for this run
    delta: Probability | None = None
    ledger_file: str | None = None  # `ledger` in the file; one for all networks that the records are in
    same_people: bool = False  # changed records are of the same people, and charged to the same ledger
    # With messages that have less noise than what it publishes; and all but `missing` other owners with their noise.
    trusts_aggregator: bool = False
    peers: dict[str, str] = field(default_factory=dict)  # whom to dial, and where
    honest: dict[str, str] = field(default_factory=dict)
    # Owners whom this one knows to be honest, and their keys' fingerprints as they told them: masked sums rely on them.
    folder: Path  # of the file; certificates and the agreement lie beside it

    @property
    def agreement(self) -> Path:
        """The agreement's file."""
        return self.folder / "agreement.json"

    @property
    def ledger(self) -> Path:
        """The ledger's file: what was spent, over all runs on the same data."""
        return self.folder / Path(self.ledger_file or "ledger.sqlite").expanduser()

    def journal(self, run: str) -> Path:
        """The journal from which a restart continues, one for each agreement: another has other owners and states."""
        return self.folder / f"journal-{run}.sqlite"

    def older_journals(self, run: str) -> list[Path]:
        """Journals of runs under other agreements."""
        return [path for path in sorted(self.folder.glob("journal-*.sqlite")) if path != self.journal(run)]

    @property
    def certificates(self) -> Path:
        """The founder's list of when certificates end: public."""
        return self.folder / "certificates.json"

    @property
    def status(self) -> Path:
        """Where the party stands, in public values, for `coterie network status`."""
        return self.folder / "status.json"

    @property
    def mask_key(self) -> Path:
        """The secret key from which masks are derived, which never leaves this folder."""
        return self.folder / "mask.key"

    @property
    def results(self) -> Path:
        """The model and the report, when the run is over."""
        return self.folder / "result"

    def to_toml(self) -> str:
        """The file's content: what was set, and whom to dial."""
        import tomli_w

        own = {key: getattr(self, "ledger_file" if key == "ledger" else key) for key in _HINTS}
        return tomli_w.dumps({key: value for key, value in own.items() if value or key == "peers"})


# By the file's keys. Tables have a line for each party; a line added at the end of the file falls into the last one.
_HINTS: dict[str, Any] = {
    "ledger" if name == "ledger_file" else name: hint
    for name, hint in get_type_hints(Party, include_extras=True).items()
    if name != "folder"
}
_TABLES = {"peers": "names to host:port", "honest": "names of owners to the fingerprints of their keys"}
_SETTINGS = [key for key in _HINTS if key not in _TABLES]


def read(path: Path) -> Party:
    """A party's file, or the folder that has one."""
    path = path / NAME if path.is_dir() else path
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"config={str(path)!r}: cannot be read ({error.strerror}). Give your {NAME}."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"config={str(path)!r}: is not TOML ({error}).") from error
    for key in given:
        if key not in _HINTS:
            raise InputError(f"{path}: unknown key {key!r}. Known keys: {', '.join(sorted(_HINTS))}.")
    return Party(folder=path.resolve().parent, **_checked(path, given))


def refuse_settings(names: Iterable[str]) -> None:
    """InputError where a party is named like a setting: its address and the setting would be confused."""
    for name in names:
        if name in _SETTINGS:
            raise InputError(f"name={name!r}: is what {NAME} calls a setting. Take another name.")


def _refuse_table(path: Path, table: str, entries: Any) -> None:
    """InputError where a setting stands inside a table: it would be ignored, and `ledger` would name another file."""
    for key in entries if isinstance(entries, dict) else ():
        if key in _SETTINGS:
            raise InputError(
                f"{path}: {key} stands below [{table}], where lines name parties. Move it above the first line in "
                "brackets."
            )
    if not isinstance(entries, dict) or not all(isinstance(text, str) for text in entries.values()):
        raise InputError(f"{path}: {table} must map {_TABLES[table]}.")


def _checked(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    for table in _TABLES:
        _refuse_table(path, table, given.get(table, {}))
    own = {key: fit(f"{path}: {key}", value, _HINTS[key]) for key, value in given.items()}
    checked_name(own.get("name", ""))
    places = {key: own[key] for key in ("listen", "router", "proxy") if key in own}
    places |= {f"peers.{name}": place for name, place in own.get("peers", {}).items()}
    for key, place in places.items():
        checked(f"{path}: {key}", place)
    return {"ledger_file" if key == "ledger" else key: value for key, value in own.items()}
