"""The real thing: every owner a process of its own, next to its own records and ledger, among peers it need not trust.

Founding and running, which may know experiments and reports:
agreement.py      what all parties agree on, public and hashed
collaboration.py  from an agreement to the protocol, without any record
network.py        a network's founding: the agreement, an authority, a folder for each party
party.py          one party's own file
records.py        an owner's records, checked against the agreement and found in the ledger
node.py           one party's whole run; outcome.py: what it keeps of it
owner.py          an owner's part in it; training.py, after.py: the machines that it is made of
local.py          all parties as processes of this machine
control.py        the socket by which its own user stops a node; actions.py: what administrators did
troubles.py       what keeps a party from others
connections.py    whom a party dials, and how long a frame may be
drive.py          runs a party's state machine on a transport and the wall clock

Below them, each knowing only those after it:
shapes/     what a party does: the shapes of protocols, each a state machine without clock, socket or thread
releases/   the way out: an owner's program on its records, its noise, charge, journal and witnesses
transport/  the way over: frames, connections, certificates, what is refused

docs/federation-inside.md tells how they play together.
"""
