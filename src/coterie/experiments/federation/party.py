"""One party's own file, `node.toml`: who it is, where it listens, whom it dials, and where its files are."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie import _check
from coterie.engines.federate.randomness import GENERATORS, Generator
from coterie.engines.federate.trust import checked_name
from coterie.errors import InputError

NAME = "node.toml"


@dataclass(frozen=True, kw_only=True)
class Party:
    """Paths are absolute here, and relative to the file's folder in the file."""

    name: str
    folder: Path  # of the file; certificates and the agreement lie beside it
    listen: str | None = None  # host:port
    peers: dict[str, str] = field(default_factory=dict)  # whom to dial, and where
    router: str | None = None
    generator: Generator = "exact"
    epsilon: float | None = (
        None  # the ledger's budget over all runs; None: what the agreement says for this run
    )
    delta: float | None = None
    ledger_file: str | None = (
        None  # `ledger` in the file; one for all networks that the same records take part in
    )
    trusts_aggregator: bool = False  # with messages that have less noise than what it publishes

    @property
    def agreement(self) -> Path:
        """The agreement's file."""
        return self.folder / "agreement.json"

    @property
    def ledger(self) -> Path:
        """What has been spent, over all runs on the same data."""
        return self.folder / Path(self.ledger_file or "ledger.sqlite").expanduser()

    @property
    def journal(self) -> Path:
        """What a restart goes on from."""
        return self.folder / "journal.sqlite"

    @property
    def status(self) -> Path:
        """Where the party stands, in public values, for `coterie network status`."""
        return self.folder / "status.json"

    @property
    def results(self) -> Path:
        """The model and the report, when the run is over."""
        return self.folder / "result"

    def to_toml(self) -> str:
        """The file's content."""
        import tomli_w

        own = {"name": self.name, "listen": self.listen, "router": self.router, "generator": self.generator}
        own |= {"epsilon": self.epsilon, "delta": self.delta}
        own |= {"ledger": self.ledger_file, "trusts_aggregator": self.trusts_aggregator or None}
        return tomli_w.dumps(
            {key: value for key, value in own.items() if value is not None} | {"peers": self.peers}
        )


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
    known = {
        "name",
        "listen",
        "router",
        "generator",
        "epsilon",
        "delta",
        "ledger",
        "trusts_aggregator",
        "peers",
    }
    for key in given:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}. Known keys: {', '.join(sorted(known))}.")
    return Party(folder=path.resolve().parent, **_checked(path, given))


def _checked(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    for key in ("name", "listen", "router", "generator", "ledger"):
        if not isinstance(given.get(key, ""), str):
            raise InputError(f"{path}: {key}={given[key]!r}: must be text.")
    checked_name(given.get("name", ""))
    _check.one_of("generator", given.get("generator", "exact"), GENERATORS)
    if "epsilon" in given:
        _check.positive("epsilon", given["epsilon"])
    if "delta" in given:
        _check.probability("delta", given["delta"])
    if not isinstance(given.get("trusts_aggregator", False), bool):
        raise InputError(f"{path}: trusts_aggregator={given['trusts_aggregator']!r}: must be true or false.")
    peers = given.get("peers", {})
    if not isinstance(peers, dict) or not all(isinstance(one, str) for one in peers.values()):
        raise InputError(f"{path}: peers must map names to host:port.")
    return {"ledger_file" if key == "ledger" else key: value for key, value in given.items()}
