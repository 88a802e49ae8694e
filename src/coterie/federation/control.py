"""The node's own door for its administrator: a UNIX socket in the party's folder, in place of signals to a number.

Who may use it: the file's mode (0600) admits the owner's user alone, and the caller's identity as the kernel reports it
(SO_PEERCRED) is compared with the node's user, so that a wrong mode admits nobody else. What it can do: say where the
party stands, in what status.json has as well, and ask it to stop after its step, as SIGTERM does. Nothing that comes
through it makes a node release, charge or read anything. There is no pause: a stopped node goes on where it was when it
is started again, and one that only stood still would have to be vouched for by its witnesses all the same.

One line of JSON in, one out. After a request to stop the connection stays open until the process ends.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.federation import actions

NAME = "control.sock"
COMMANDS = ("status", "stop")
_LONGEST = 1024  # bytes of a question
_PATIENCE = 5.0  # seconds for a caller to ask, and for a node to answer
_CREDENTIALS = struct.Struct("3i")  # the caller's process, user and group


def available() -> bool:
    """Whether this system identifies callers of a socket, as Linux does."""
    return hasattr(socket, "SO_PEERCRED")


class Control:
    """What the socket knows and was told; used from the node's thread and the socket's."""

    def __init__(self) -> None:
        self._shown: Mapping[str, Any] | None = None
        self._stop = threading.Event()

    def show(self, snapshot: Mapping[str, Any]) -> None:
        """Take a new snapshot in place of the last one."""
        self._shown = snapshot

    def stopped(self) -> bool:
        """Whether somebody asked the node to stop."""
        return self._stop.is_set()

    def answer(self, question: bytes, caller: int, asked: Callable[[str], None]) -> dict[str, Any]:
        """The answer to a caller's line; `asked` is called with the name of whoever asks the node to stop."""
        if caller != os.geteuid():
            return {"error": f"user {caller} may not: run it as the node's own user, {os.geteuid()}"}
        try:
            request = json.loads(question)
            command, sudo = request["command"], request.get("sudo")
        except (ValueError, TypeError, KeyError, AttributeError):
            return {"error": 'no question: send one line such as {"command": "status"}'}
        if command == "status":
            return {"status": self._shown or {"state": "starting"}}
        if command != "stop":
            return {"error": f"command={command!r:.40}: must be one of {', '.join(COMMANDS)}"}
        self._stop.set()
        try:
            asked(actions.user(caller, sudo if isinstance(sudo, str) else None))
        except InputError as error:  # a full disk is no reason to go on
            return {"stopping": True, "warning": str(error)}
        return {"stopping": True}


@contextmanager
def listening(folder: Path, asked: Callable[[str], None]) -> Iterator[Control]:
    """Answer at the folder's socket until the block ends. InputError where another node does."""
    control, over = Control(), threading.Event()

    class Question(socketserver.StreamRequestHandler):
        timeout = _PATIENCE

        def handle(self) -> None:
            """One line in, one out; who asked the node to stop keeps the connection."""
            credentials = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            with suppress(OSError):
                question = self.rfile.readline(_LONGEST)
                answer = control.answer(question, _CREDENTIALS.unpack(credentials)[1], asked)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
                if "stopping" in answer:
                    over.wait()

    with _bound(folder, Question) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="control", daemon=True)
        thread.start()
        try:
            yield control
        finally:
            over.set()
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Left to the thread's own hook (`logs.guarded`), which prints no more than it may."""
        raise


def ask(folder: Path, command: str) -> dict[str, Any]:
    """A node's answer; after a request to stop, once it has ended. InputError where no node answers."""
    with _address(folder) as place, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.settimeout(_PATIENCE)
            line.connect(place)
            line.sendall(
                json.dumps({"command": command, "sudo": os.environ.get("SUDO_USER")}).encode() + b"\n"
            )
            answers = line.makefile("rb")
            answer = json.loads(answers.readline(1 << 24))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise InputError(
                f"folder={str(folder)!r}: no node runs here (no {NAME} that answers)."
            ) from error
        except PermissionError as error:
            raise InputError(
                f"folder={str(folder)!r}: its node is another user's. Run this as that user."
            ) from error
        except (OSError, ValueError) as error:
            raise InputError(
                f"folder={str(folder)!r}: its node does not answer ({error}). It may be stuck."
            ) from error
        if "error" in answer:
            raise InputError(f"folder={str(folder)!r}: {answer['error']}.")
        if "stopping" in answer:
            line.settimeout(None)
            answers.read()  # nothing comes any more: until the process lets go of the line
    return answer


@contextmanager
def _bound(folder: Path, caller: type[socketserver.StreamRequestHandler]) -> Iterator[_Server]:
    """The socket, whose file is removed afterwards. It does not listen before its mode is set."""
    _refuse_second(folder)
    with _address(folder) as place, _Server(place, caller, bind_and_activate=False) as server:
        try:
            Path(place).unlink(missing_ok=True)  # of a node that was killed
            server.server_bind()
            os.chmod(place, 0o600)
            server.server_activate()
        except OSError as error:
            raise InputError(
                f"{folder / NAME}: cannot be made ({error.strerror}). Keep the folder on a local disk."
            ) from error
        own = os.stat(place).st_ino
        try:
            yield server
        finally:
            if os.path.exists(place) and os.stat(place).st_ino == own:
                os.unlink(place)


def _refuse_second(folder: Path) -> None:
    with _address(folder) as place, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(place)
        except OSError:
            return
    raise InputError(
        f"folder={str(folder)!r}: another node runs here. Stop it first: coterie network stop {folder}"
    )


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The socket's address through the open folder's descriptor: the kernel takes 107 bytes, paths may be longer."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"folder={str(folder)!r}: cannot be opened ({error.strerror}).") from error
    try:
        yield f"/proc/self/fd/{opened}/{NAME}"
    finally:
        os.close(opened)
