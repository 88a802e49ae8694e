"""Peers over Eclipse Zenoh: one connection for each edge of the graph, mutual TLS, and every message denied but two.

A message from a to b travels under the key coterie/<run>/a/b. Each end's access control names the other by the
common name of its certificate and allows, by default-deny, only: what a receives from b is under b's name and for
a; what a sends to b is under a's name and for b. So the sender's name in a key is the receiver's own check of the
sender's certificate, and who answers at b's address without b's certificate gets nothing. A party that is
connected to another one on top of this gains nothing: peers do not forward.

Through a router (`router`, for parties that cannot dial each other) there are no connections between parties: the
two ends see the router's certificate instead of each other's. Each end then checks that it talks to the router, and
the router (`router_access`) checks that what a party says is under its own name: whoever runs the router is trusted
with who said what, but for frames that are sealed end to end. Records and budgets are not in its hands.

All of this knows a peer by a name that an authority certified. Where both made their keys at home, frames are sealed
with those (`sealing.py`), and then neither an authority nor a router can speak for one of them, or read along.

After a connection that failed, Zenoh waits a tenth of a second before it accepts the next one. Strangers who dial
all day keep others from dialling in, but end no connection that is there: so let both ends dial each other.

Messages are dropped rather than waited for: a frozen or dead peer must not stop a party, and machines ask again.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.errors import InputError
from coterie.federation.transport import address as addresses
from coterie.federation.transport.sealing import Seal
from coterie.federation.transport.trust import Identity, checked_name
from coterie.federation.transport.tunnel import Tunnel

if TYPE_CHECKING:
    import zenoh

ROUTER = "router"  # the common name of a router's certificate
_ROOM = 65_536  # a frame this much over the longest is still received whole, to be counted as oversized
_BATCHES = 16  # batches of 64 kB that may wait for a slow link in each direction: Zenoh's maximum
_ROUTER_WAIT = 10_000  # milliseconds for a router to answer at the start
_PATIENCE = 20_000  # microseconds that a message waits for room in the queue before it is dropped

Deliver = Callable[[str, bytes], None]


@dataclass(kw_only=True, eq=False, repr=False)
class ZenohTransport:
    """A party's connections to its peers, from `open` to `close`. Addresses are host:port."""

    identity: Identity = field(kw_only=False)  # as `trust.identity` has checked it
    run: str  # the keys' prefix: the same for all agreements of a network, so that parties notice that theirs differ
    admitted: tuple[str, ...]  # the parties to talk to, whoever dials
    listen: str | None = None  # where others may dial; None: nowhere
    peers: Mapping[str, str] = field(default_factory=dict)  # of those to dial. One of two must dial; both may
    router: str | None = None  # through which to go to everybody, instead of `listen` and `peers`
    proxy: str | None = None  # an HTTP proxy through which this party dials everybody
    longest: int  # the most bytes of a frame
    announced: bool = True  # whether peers are to see that it came and that it left
    seals: Mapping[str, Seal] = field(
        default_factory=dict
    )  # end to end; these peers' unsealed frames are refused

    def __post_init__(self) -> None:
        self.name = self.identity.name
        self.admitted = tuple(sorted(checked_name(name) for name in self.admitted))
        if self.router is None:
            ends = _endpoints(self.listen, self.peers, self.admitted)
        elif self.listen is None and not self.peers:
            ends = {"listen": [], "connect": [_endpoint("router", self.router)]}
        else:
            raise InputError(
                f"router={self.router!r:.80}: everything goes through it. Give no listen and no peers."
            )
        self._config = _config(self.identity, ends, self.longest)
        if self.router is not None:
            self._config |= {"mode": "client"}
            self._config["connect"] |= {"timeout_ms": _ROUTER_WAIT, "exit_on_failure": True}
        through = None if self.router is None else ROUTER
        self._config["access_control"] = access(self.name, self.admitted, checked_name(self.run), through)
        if self.proxy is not None:
            addresses.checked("proxy", self.proxy)
        self._tunnels: list[Tunnel] = []
        self._session: zenoh.Session | None = None
        self._held: list[Any] = []  # references without which Zenoh drops these objects
        self._publishers: dict[str, zenoh.Publisher] = {}
        self._alive: set[str] = set()
        self._forged: Counter[str] = Counter()
        self._lock = threading.Lock()

    def open(self, deliver: Deliver, changed: Callable[[], None] = lambda: None) -> None:
        """Listen and dial, without waiting for anybody: Zenoh keeps dialling a peer that is away.

        `deliver` takes (sender, frame) and `changed` is told that somebody came or went, both from Zenoh's threads.
        """
        import zenoh

        near = [self._within_reach(endpoint) for endpoint in self._config["connect"]["endpoints"]]
        connect = self._config["connect"] | {"endpoints": near}
        try:
            config = zenoh.Config.from_json5(json.dumps(self._config | {"connect": connect}))
            self._session = zenoh.open(config)
        except zenoh.ZError as error:
            self.close()
            raise InputError(_explain(self._config, self.proxy, error)) from error
        for peer in self.admitted:
            self._hold(peer, deliver, changed)
        if self.announced:
            self._held.append(self._session.liveliness().declare_token(self._key(self.name)))

    def send(self, peer: str, frame: bytes) -> None:
        """Send a frame to a peer, if it is there and keeps up."""
        seal = self.seals.get(peer)
        self._publishers[peer].put(frame if seal is None else seal.sealed(frame))

    def alive(self) -> frozenset[str]:
        """Peers that have joined. A killed one leaves in moments, a frozen one after ten seconds, and one whose link is
        full of frames it did not read when its connection ends.
        """
        with self._lock:
            return frozenset(self._alive)

    def connected(self) -> frozenset[str]:
        """Names in the certificates at the other ends of open connections, also of parties never admitted."""
        if self._session is None:
            return frozenset()
        return frozenset(str(link.auth_identifier) for link in self._session.info.links())

    def forged(self) -> dict[str, int]:
        """Frames that came as this peer's and are not: under a key that is only like its own, which access control
        lets none pass, or not sealed by it, which only who holds an authority or a router can send."""
        with self._lock:
            return dict(self._forged)

    def close(self) -> None:
        """Leave; peers notice it at once."""
        if self._session is not None:
            self._session.close()
            self._session = None
        for tunnel in self._tunnels:
            tunnel.close()
        self._tunnels.clear()
        self._held.clear()
        self._publishers.clear()

    def _within_reach(self, endpoint: str) -> str:
        """An endpoint that Zenoh can dial. Through a tunnel it does not compare the certificate's host, only its
        authority; what passes is decided by the certificate's name, as everywhere (`access`)."""
        address = endpoint.removeprefix("tls/")
        if self.proxy is None and not addresses.numeric6(address):
            return endpoint
        self._tunnels.append(Tunnel(address, self.proxy))
        return f"tls/{self._tunnels[-1].near}#verify_name_on_connect=false"

    def _hold(self, peer: str, deliver: Deliver, changed: Callable[[], None]) -> None:
        import zenoh

        assert self._session is not None
        key, seal = self._key(peer, self.name), self.seals.get(peer)

        def arrived(sample: zenoh.Sample) -> None:
            frame = None
            if str(sample.key_expr) == key and sample.kind == zenoh.SampleKind.PUT:
                frame = sample.payload.to_bytes()
                frame = frame if seal is None else seal.opened(frame)
            if frame is not None:
                return deliver(peer, frame)
            with self._lock:
                self._forged[peer] += 1

        def came_or_went(sample: zenoh.Sample) -> None:
            with self._lock:
                (self._alive.add if sample.kind == zenoh.SampleKind.PUT else self._alive.discard)(peer)
            changed()

        # A direct callback: Zenoh's indirect ones have a queue without end, which a peer could fill.
        subscriber = self._session.declare_subscriber(key, zenoh.handlers.Callback(arrived, indirect=False))
        watcher = self._session.liveliness().declare_subscriber(self._key(peer), came_or_went, history=True)
        self._held += [subscriber, watcher]
        self._publishers[peer] = self._session.declare_publisher(
            self._key(self.name, peer), congestion_control=zenoh.CongestionControl.DROP
        )

    def _key(self, *names: str) -> str:
        return "/".join(("coterie", self.run, *names))


def access(me: str, peers: Sequence[str], run: str, through: str | None = None) -> dict[str, Any]:
    """A party's access control: nothing by default; with each peer, the frames between the two.

    Guarantee: from a connection whose certificate is of `p`, a frame passes only under coterie/<run>/p/<me>, and
    to it only under coterie/<run>/<me>/p. With `through`, the frames of all `peers` pass from and to that name, and
    none from and to any other.
    """
    if through in peers:
        raise InputError(f"name={through!r}: is the router's. Give the party another one.")
    pairs = {peer: [peer] for peer in peers} if through is None else {through: list(peers)}
    return _rules({subject: _between(run, names, [me]) for subject, names in pairs.items()})


def router_access(parties: Sequence[str], run: str) -> dict[str, Any]:
    """A router's access control: each party may send under its own name, and receive what is addressed to it."""
    fellows = {party: [fellow for fellow in parties if fellow != party] for party in parties}
    return _rules({party: _between(run, [party], fellows[party]) for party in parties})


def router_config(identity: Identity, listen: str, parties: Sequence[str], run: str, longest: int) -> str:
    """The configuration of a Zenoh router of this run, as JSON. It names the identity's paths as they are."""
    config = _config(identity, {"listen": [_endpoint("listen", listen)], "connect": []}, longest)
    return json.dumps(config | {"mode": "router", "access_control": router_access(parties, run)}, indent=1)


# Zenoh sends only to subscribers: a receiver first declares the key, in the opposite direction.
_ASKING = {
    "put": ["declare_subscriber"],
    "liveliness_token": ["declare_liveliness_subscriber", "liveliness_query"],
}


def _rules(heard: Mapping[str, Sequence[tuple[str, list[str], list[str]]]]) -> dict[str, Any]:
    """Rules from (message, keys that may come in, keys that may go out) of each subject."""
    rules: list[dict[str, Any]] = []
    policies: list[dict[str, Any]] = []
    for subject, kinds in heard.items():
        own = [
            {"id": f"{subject} {flow} {messages[0]}", "permission": "allow", "flows": [flow], "messages": messages,
             "key_exprs": keys}
            for message, incoming, outgoing in kinds
            for flow, messages, keys in (
                ("ingress", [message], incoming),
                ("egress", [message], outgoing),
                ("egress", _ASKING[message], incoming),
                ("ingress", _ASKING[message], outgoing),
            )
        ]  # fmt: skip
        rules += own
        policies.append({"rules": [rule["id"] for rule in own], "subjects": [subject]})
    subjects = [{"id": subject, "cert_common_names": [subject]} for subject in heard]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _between(run: str, those: Sequence[str], these: Sequence[str]) -> list[tuple[str, list[str], list[str]]]:
    """The keys that may come in from `those` for `these`, and go out the other way."""
    pairs = [(sender, receiver) for sender in those for receiver in these]
    return [
        ("put", _keys(run, pairs), _keys(run, [(receiver, sender) for sender, receiver in pairs])),
        (
            "liveliness_token",
            _keys(run, [(sender,) for sender in those]),
            _keys(run, [(sender,) for sender in these]),
        ),
    ]


def _keys(run: str, names: Sequence[tuple[str, ...]]) -> list[str]:
    return ["/".join(("coterie", run, *some)) for some in names]


def _config(identity: Identity, endpoints: Mapping[str, list[str]], longest: int) -> dict[str, Any]:
    mine = {"certificate": str(identity.certificate), "private_key": str(identity.key)}
    tls = {
        "root_ca_certificate": str(identity.authority),
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
        **{f"{role}_{part}": path for role in ("listen", "connect") for part, path in mine.items()},
    }
    queue = {"size": {"data": _BATCHES}, "congestion_control": {"drop": {"wait_before_drop": _PATIENCE}}}
    retry = {"period_init_ms": 250, "period_max_ms": 2_000, "period_increase_factor": 2}
    return {
        "mode": "peer",
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "listen": {"endpoints": endpoints["listen"], "exit_on_failure": True},
        "connect": {"endpoints": endpoints["connect"], "exit_on_failure": False, "retry": retry},
        "transport": {
            "shared_memory": {"enabled": False},
            "link": {
                "protocols": ["tls"],
                "tls": tls,
                "tx": {"queue": queue},
                "rx": {"max_message_size": longest + _ROOM},
            },
        },
    }


def _endpoints(listen: str | None, peers: Mapping[str, str], admitted: Sequence[str]) -> dict[str, list[str]]:
    unknown = sorted(set(peers) - set(admitted))
    if unknown:
        raise InputError(f"peers: {unknown[0]!r:.80} is not admitted. Admit it, or do not dial it.")
    dialled = [_endpoint(f"the address of {name}", address) for name, address in sorted(peers.items())]
    return {"listen": [_endpoint("listen", listen)] if listen is not None else [], "connect": dialled}


def _endpoint(what: str, address: str) -> str:
    return f"tls/{addresses.checked(what, address)}"


def _explain(config: Mapping[str, Any], proxy: str | None, error: Exception) -> str:
    reason = str(error).partition(" at /")[0][:200]  # without the place in Zenoh's source
    if config["mode"] == "client":
        address = config["connect"]["endpoints"][0]
        first, what = (address.removeprefix("tls/"), "router") if proxy is None else (proxy, "proxy")
        if addresses.unresolved(first):
            return f"{what}={first}: the host name does not resolve. Correct it, or ask who keeps its names."
        return f"router={address}: no answer; is it running, with this agreement? ({reason})"
    where = ", ".join(config["listen"]["endpoints"]) or "nowhere"
    return (
        f"listen={where}: cannot listen there; does another node or network, or is the address another machine's? "
        f"({reason}) Stop that one, or found this network with another port: --address NAME=HOST:PORT."
    )
