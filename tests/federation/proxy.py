"""A small HTTP proxy for tests: it knows CONNECT alone, and keeps what passes, as whoever runs one could."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading

HOST = "127.0.0.1"


class Proxy:
    """From `with` to its end. `asked`: the addresses of calls; `seen`: all bytes that went through."""

    def __init__(self, status: str = "200 Connection established") -> None:
        self.asked: list[str] = []
        self.seen: list[bytes] = []
        own = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                method, address, _ = self.rfile.readline().decode().split()
                while self.rfile.readline().strip():
                    pass
                own.asked.append(address)
                self.wfile.write(f"HTTP/1.1 {status}\r\nVia: 1.1 proxy\r\n\r\n".encode())
                if method == "CONNECT" and status.startswith("200"):
                    own._join(self.connection, address)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._server = Server((HOST, 0), Handler)
        self.address = f"{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, args=(0.05,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.socket.close()

    def _join(self, near: socket.socket, address: str) -> None:
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port))) as far:
            back = threading.Thread(target=self._pass, args=(far, near))
            back.start()
            self._pass(near, far)
            back.join()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65_536):
                self.seen.append(chunk)
                sink.sendall(chunk)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
