"""The way to addresses that Zenoh cannot dial by itself: numbers of IPv6, and all that lies behind a proxy.

Zenoh takes the host to verify from before the first colon of an address, which no number of IPv6 survives, and it
knows no proxies. A tunnel is a port of this machine's loop-back behind which bytes go to the true address, as they
are: TLS is between the two parties, and dialling the port gives nobody more than dialling the address itself.

Guarantee: a proxy sees names, ports and sizes, like any relay in between, and can cut the connection.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading

from coterie.federation.transport.address import parts

LOCAL = "127.0.0.1"
PATIENCE = 5.0  # seconds for an answer to a call
_SILENT = 60.0  # seconds of silence, six leases of Zenoh's, after which a connection is dead
_CHUNK = 65_536
_HEAD = 8_192  # the most bytes of a proxy's answer


class ProxyRefused(OSError):
    """The proxy refused a connection to the address. Its text is the proxy's answer, shortened."""


def dial(address: str, proxy: str | None = None) -> socket.socket:
    """A connection to host:port, by an HTTP proxy's CONNECT where one is named. OSError where there is none."""
    line = socket.create_connection(parts(proxy or address), timeout=PATIENCE)
    if proxy is None:
        return line
    try:
        line.sendall(f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        status = _head(line).split(b"\r\n", 1)[0].decode("latin-1")
        if status.split(" ")[1:2] != ["200"]:
            raise ProxyRefused(0, status[:80] or "no answer")
    except BaseException:
        line.close()
        raise
    return line


class Tunnel:
    """A port of the loop-back that leads to one address, until `close`."""

    def __init__(self, address: str, proxy: str | None = None) -> None:
        class TunnelHandler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError), dial(address, proxy) as there:
                    _joined(self.request, there)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True  # they end with their connections, which Zenoh closes before the tunnel

        self._server = Server((LOCAL, 0), TunnelHandler)
        self.near = f"{LOCAL}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="tunnel", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Accept no new connections."""
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()


def _head(line: socket.socket) -> bytes:
    """A proxy's answer, and no byte after it: those come from the other end."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _HEAD:
        byte = line.recv(1)
        if not byte:
            break
        head += byte
    return head


def _joined(near: socket.socket, far: socket.socket) -> None:
    """Pass bytes in both directions until either end closes."""
    for end in (near, far):
        end.settimeout(_SILENT)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=_passed, args=(far, near), daemon=True)
    back.start()
    _passed(near, far)
    back.join()


def _passed(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
