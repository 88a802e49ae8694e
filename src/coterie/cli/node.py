"""`coterie node`: one party of a real run, next to its own data and ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import _footprint
from coterie.cli import _shared as options
from coterie.cli._cache import keep_compiled
from coterie.cli._common import INTERRUPTED, answer, print_json
from coterie.errors import CoterieError, InputError, UnforeseenError

if TYPE_CHECKING:
    from coterie.federation.logs import Log
    from coterie.federation.party import Party
    from coterie.federation.systemd import Shown

_TOLD = (
    "finished",
    "steps",
    "of",
    "run",
    "network",
    "certified_epsilon",
    "spent_epsilon",
    "budget_epsilon",
    "out",
)


def node(
    config: Annotated[Path, typer.Argument(help="Your node.toml, or the folder you were sent.")],
    data: Annotated[
        Path | None, typer.Option(help="Your records: CSV, Parquet or NPZ. They stay here.")
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(help="exact, or stream (normal but for the rounding of doubles, for very large models)"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default: result beside node.toml.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Dry run: file, peers, cost. Nothing is released or charged.")
    ] = False,
    mask_key: Annotated[
        bool, typer.Option("--mask-key", help="Make this owner's key for masked sums, and do nothing else.")
    ] = False,
    sign: Annotated[
        bool,
        typer.Option("--sign", help="Sign the agreement with the key you made, and do nothing else."),
    ] = False,
    log_format: Annotated[
        str, typer.Option(help="text, for people, or json: one object a line, nothing private.")
    ] = "text",
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve /metrics (Prometheus) and /health on 127.0.0.1 at this port.")
    ] = None,
    injected_seed: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run one owner (or the learner, or the aggregator): join, train, report. Ctrl-C stops; run again to go on.

    Told to stop (Ctrl-C, SIGTERM), it finishes its step and ends with status 0, as service managers expect.
    """
    with _logged(log_format), _unforeseen_told(log_format), _own_files():
        from dataclasses import replace

        with _footprint.importing():
            from coterie import _check
            from coterie.federation import logs, outcome, party
            from coterie.federation.releases.randomness import GENERATORS

        own = party.read(config)
        if mask_key:
            return _make_key(own, as_json)
        if sign:
            return _sign(own, as_json)
        log = logs.log(log_format, party=own.name)
        if generator is not None:
            own = replace(own, generator=_check.one_of("generator", generator, GENERATORS))
        if check:
            return _dry(own, data, log, logs.public if log_format == "json" else str, as_json)
        run = _run(own, data, log, injected_seed, metrics_port)
        summary = outcome.summary(run)
        if run.finished:
            summary["out"] = str(outcome.write(run, out or own.results))
        if log_format == "json":  # whoever collects its lines gets what it prints, too
            summary.pop("own_metric", None)
        if as_json:
            print_json(summary)
        elif log_format == "text":
            print(outcome.words(summary))
        if log_format == "json":
            logged = {key: summary[key] for key in _TOLD if key in summary}
            logs.entry("info", "the node ends", party=own.name, **logged)
        if not run.finished:
            log(f"{own.name}: stopped before the end. Start it again to go on; nothing is lost.")


def _run(own: Party, data: Path | None, log: Log, injected_seed: int | None, port: int | None) -> Any:
    """The run, with its watchers, and with those who may stop it."""
    with _footprint.importing():
        from coterie.accounting.late import import_events

        import_events()  # a node that charges nothing but Gaussians never needs SciPy
        from coterie.federation import actions
        from coterie.federation import node as federation
        from coterie.federation.drive import stopping
        from coterie.federation.endpoint import serving
        from coterie.federation.systemd import notifier
        from coterie.federation.transport.door import watched

    keep_compiled()  # functions and shapes: records, noise and keys are their arguments (tests/federation/test_side.py)
    with ExitStack() as held:
        watchers: list[Shown] = [_footprint.Slimmed()]
        if port is not None:
            watchers.append(held.enter_context(serving(port)).show)
        # last: once systemd hears READY, the endpoint answers
        watchers.append(notifier())
        signalled = held.enter_context(stopping())
        asked = held.enter_context(_controlled(own, log, watchers))
        actions.record(own.folder, "start", ledger=own.ledger)

        def shown(snapshot: Mapping[str, Any]) -> None:
            for tell in watchers:
                tell(snapshot)

        _footprint.give_back()  # memory that importing needed
        with _ended(own, log) as ending, _footprint.compiling():
            run = federation.run(
                own,
                data,
                federation.Host(
                    log=log,
                    stop=lambda: signalled() or asked(),
                    watch=watched,
                    shown=shown,
                    between=_footprint.give_back,
                ),
                injected_seed=injected_seed,
            )
            ending.append("finished" if run.finished else "stopped")
        return run


@contextmanager
def _own_files() -> Iterator[None]:
    """All files that a node writes are readable by its own user alone, whatever the shell's umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _controlled(own: Party, log: Log, watchers: list[Shown]) -> Iterator[Callable[[], bool]]:
    """Whether the administrator asked the node to stop at its socket, which also shows the node's status."""
    from coterie.federation import actions, control

    if not control.available():
        log(f"no {control.NAME}: this system does not say who calls. Stop the node by Ctrl-C or SIGTERM")
        yield lambda: False
        return

    def asked(by: str) -> None:
        actions.record(own.folder, "stop", by=by, ledger=own.ledger)

    with control.listening(own.folder, asked) as controller:
        watchers.insert(0, controller.show)
        yield controller.stopped


@contextmanager
def _ended(own: Party, log: Log) -> Iterator[list[str]]:
    """Record how the node ended: as the block says, or by which error. A start without an end means it was killed."""
    from coterie.federation import actions
    from coterie.federation.transport.lines import warning

    ending: list[str] = []
    try:
        yield ending
    except BaseException as error:
        ending.append(f"failed: {type(error).__name__}")
        raise
    finally:
        try:
            actions.record(own.folder, "end", ledger=own.ledger, outcome=ending[0])
        except InputError as error:  # the run's own end says more
            log(warning(str(error)))


def _dry(
    own: Party, data: Path | None, log: Log, wording: Callable[[CoterieError], str], as_json: bool
) -> None:
    from coterie.federation import check

    (dry_run,) = check.check([(own, data)], log)
    summary = check.summary(dry_run, wording)
    answer(summary, check.words(summary), as_json)
    check.refuse_troubles([dry_run])


@contextmanager
def _logged(form: str) -> Iterator[None]:
    """With JSON lines, log the node's failure as one of them."""
    if form != "json":
        yield
        return
    from coterie.federation import logs

    try:
        yield
    except CoterieError as error:
        logs.failure(error)
        raise typer.Exit(error.exit_status) from error
    except KeyboardInterrupt as error:
        logs.entry("warning", "interrupted: what was not finished is not written", exit_status=INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def _unforeseen_told(form: str) -> Iterator[None]:
    """Log an unforeseen exception by class and place alone: its message may quote a record."""
    from coterie import _unforeseen
    from coterie.federation import logs

    try:
        with logs.guarded(form):
            yield
    except (CoterieError, BrokenPipeError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a Rust library is no Exception
        raise UnforeseenError(f"{_unforeseen.told(error)}. Please report these words.") from None


def _make_key(own: Party, as_json: bool) -> None:
    from coterie.federation import actions
    from coterie.mechanisms.masks import fingerprint, make_key

    public = make_key(own.mask_key)
    actions.record(own.folder, "mask-key", ledger=own.ledger, fingerprint=fingerprint(public))
    key, told, file = public.hex(), fingerprint(public), str(own.mask_key)
    answer(
        {"name": own.name, "key": key, "fingerprint": told, "file": file},
        f"Tell whoever founded the network:  {own.name}={key}\n"
        f"Read to the other owners, by telephone:  {told}\n"
        f"The secret is in {file}: it stays here, and is deleted when the run is over.",
        as_json,
    )


def _sign(own: Party, as_json: bool) -> None:
    from coterie.federation import actions, consent
    from coterie.federation import agreement as agreements

    agreement = agreements.read(own.agreement)
    file = consent.sign(own.folder, own.name, agreement)
    actions.record(own.folder, "sign", ledger=own.ledger, agreement=agreement.digest.hex())
    answer(
        {"name": own.name, "agreement_sha256": agreement.digest.hex(), "file": str(file)},
        f"{own.name} has signed the agreement {agreement.digest.hex()}:\n"
        f"{agreements.words(agreement)}\n"
        f"Send {file} to whoever founded the network; nothing in it is secret.",
        as_json,
    )
