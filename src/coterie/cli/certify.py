"""`coterie certify`: what papers claim beside what can be certified, a run's certificates again, any mechanisms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from coterie import _check
from coterie.cli import _shared as options
from coterie.cli._common import print_json
from coterie.cli._progress import progress
from coterie.errors import InputError
from coterie.relations import REPLACE_ONE

if TYPE_CHECKING:
    from coterie.accounting import Certificate
    from coterie.experiments.claims import Row
    from coterie.experiments.recompute import Recomputed
    from coterie.reports.claims import ClaimedRow

WIDTH = 100


class AccountantOptions(NamedTuple):
    """The accountant's options; None for those not given."""

    plan: Path | None
    epsilon: float | None
    delta: float | None
    relation: str | None
    mechanism: dict[str, Any]

    @property
    def given(self) -> list[str]:
        """The names of given options, as a user writes them."""
        named = self._asdict() | self.mechanism
        del named["mechanism"]
        return [f"--{name}" for name, value in named.items() if value is not None]


def certify(
    paper: Annotated[
        str | None, typer.Option(help="A paper, such as liu_2022, or its protocol; default: all five.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A public number of its setting, KEY=VALUE; repeat.")
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", help="A run's folder, its result.json or a model: compute its certificates again."
        ),
    ] = None,
    group: Annotated[
        int | None, typer.Option(help="With --from: also ε for so many records of one person.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Ask the accountant: gaussian (default) or laplace.")
    ] = None,
    multiplier: Annotated[
        float | None, typer.Option(help="Noise scale over the bound on one record's part.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Instead of --multiplier: find the least that keeps this ε.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="How many releases.")] = None,
    rate: Annotated[float | None, typer.Option(help="Each record is drawn with this probability.")] = None,
    cap: Annotated[int | None, typer.Option(help="With --rate and --records: at most so many.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="So many of --records are drawn without replacement.")
    ] = None,
    records: Annotated[int | None, typer.Option(help="The public number of records.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ; 0 for Laplace noise alone.")] = None,
    relation: Annotated[str | None, typer.Option(help="replace_one (default) or add_or_remove_one.")] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Compose this TOML file's tables, one for each mechanism.")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Write the table as claims.md, with pictures, into this folder.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """What the five papers claim, what can be certified, and why they differ; or what your own mechanisms cost."""
    mechanism = {"noise": noise, "multiplier": multiplier, "steps": steps, "rate": rate,
                 "cap": cap, "batch": batch, "records": records}  # fmt: skip
    asked = AccountantOptions(plan, epsilon, delta, relation, mechanism)
    if asked.given:
        excluded = {"--from": from_, "--group": group, "--paper": paper, "--set": set_, "--docs": docs}
        _alone(asked.given[0], excluded)
        return _account(asked, as_json)
    if from_ is not None:
        _alone("--from", {"--paper": paper, "--set": set_, "--docs": docs})
        return _recompute(from_, 1 if group is None else _check.count("group", group), as_json)
    if group is not None:
        raise InputError(f"--group {group}: needs --from, whose releases these are.")
    if docs is not None:
        _alone("--docs", {"--paper": paper, "--set": set_})
    elif set_ and paper is None:
        raise InputError("--set: needs --paper, whose settings these are.")
    rows = _rows(paper, set_ or [])
    if docs is not None:
        _write(rows, docs)
    if as_json:
        return print_json({"rows": [row.to_json() for row in rows]})
    _show(rows)


def _account(asked: AccountantOptions, as_json: bool) -> None:
    """Print what the mechanisms cost together, or the least noise for a budget and what that costs."""
    from coterie.experiments.accountant import answer, from_words, read_plan

    own = {name: value for name, value in asked.mechanism.items() if value is not None}
    if asked.plan is not None and own:
        raise InputError(
            f"--plan: does not go with {', '.join(f'--{name}' for name in own)}. Put it into the file."
        )
    mechanisms = [from_words(own)] if asked.plan is None else read_plan(asked.plan)
    if asked.delta is None:
        raise InputError("delta: missing. Give one far below 1/records, such as --delta 1e-5.")
    with progress() as tell:
        tell("certifying", 0, 0)
        relation = asked.relation or REPLACE_ONE
        cost = answer(mechanisms, delta=asked.delta, relation=relation, epsilon=asked.epsilon)
    if as_json:
        return print_json(cost.to_json())
    for line in cost.lines():
        print(line)


def _alone(option: str, excluded: dict[str, Any]) -> None:
    given = [name for name, value in excluded.items() if value]
    if given:
        raise InputError(f"{option}: does not go with {', '.join(given)}. Leave one out.")


def _rows(paper: str | None, pairs: list[str]) -> list[Row]:
    from coterie.cli.run import parse_settings
    from coterie.experiments.claims import table

    given = parse_settings(pairs)
    with progress() as tell:
        tell("certifying", 0, 0)
        return table(paper, given, tell)


def _show(rows: list[Row]) -> None:
    """A block for each guarantee. Colour marks only what is certified above its claim."""
    from rich.console import Console
    from rich.text import Text

    from coterie.experiments.claims.words import blocks

    screen = Console()
    width = min(WIDTH, screen.width) if screen.is_terminal else WIDTH
    console = Console(width=width, highlight=False, soft_wrap=True)
    for line, alarming in blocks(rows, width):
        text = Text(line)
        if alarming:
            text.stylize("bold red", *alarming)
        console.print(text)


def _write(rows: list[Row], folder: Path) -> None:
    """The page and its pictures: one of all rows, and one of each paper."""
    from coterie.experiments.claims import PAPERS
    from coterie.experiments.claims.words import page
    from coterie.reports.claims import bars

    try:
        images = folder / "images"
        images.mkdir(parents=True, exist_ok=True)
        (folder / "claims.md").write_text(page(rows), encoding="utf-8")
        bars([_bar(row) for row in rows], "Claimed and certified ε, published settings").savefig(
            images / "claims.png"
        )
        for paper in PAPERS:
            own = [_bar(row) for row in rows if row.paper == paper]
            bars(own, f"{paper}: claimed and certified ε").savefig(images / f"claims-{paper}.png")
    except OSError as error:
        raise InputError(
            f"docs={str(folder)!r}: cannot be written ({error.strerror}). Name another."
        ) from error


def _bar(row: Row) -> ClaimedRow:
    from coterie.experiments.claims.words import changed
    from coterie.reports.claims import ClaimedRow

    return ClaimedRow(
        f"{row.paper} · {row.protocol}", changed(row), row.claim.epsilon, row.certificate.epsilon
    )


def _recompute(file: Path, group: int, as_json: bool) -> None:
    """Compute certificates again; one line and status 2 where the file differs from its events."""
    from coterie.experiments.recompute import check, of_group

    with progress() as tell:
        tell("computing again", 0, 0)
        checks = check(file)
        problems = [problem for recomputed in checks for problem in recomputed.problems]
        grouped = checks if group > 1 and not problems else []
        of_groups = [of_group(recomputed.found, group) for recomputed in grouped]
    if as_json:
        certificates = [_checked(recomputed) for recomputed in checks]
        for certificate, of_many in zip(certificates, of_groups):
            certificate["group"] = {"records": group, **_of_many(of_many)}
        print_json(
            {"ok": not problems, "file": str(file), "problems": problems, "certificates": certificates}
        )
    elif not problems:
        for recomputed in checks:
            print(f"agrees: {recomputed.whose}{recomputed.found}")
        for recomputed, of_many in zip(checks, of_groups):
            print(f"{recomputed.whose}{of_many}")
    if problems:
        raise InputError(f"from={str(file)!r}: does not agree. {problems[0]}.")


def _of_many(certificate: Certificate) -> dict[str, Any]:
    plain = certificate.to_json()
    return {name: plain[name] for name in ("epsilon", "epsilon_optimistic", "delta", "unit", "accountant")}


def _checked(check: Recomputed) -> dict[str, Any]:
    certified = check.found.to_json()["epsilon"]
    return {
        "owners": check.owners,
        "written": check.written,
        "found": certified,
        "problems": list(check.problems),
    }
