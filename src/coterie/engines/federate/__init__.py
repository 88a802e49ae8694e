"""The real thing: every owner a process of its own, next to its own records and ledger, among peers it need not trust.

machine.py     what a party's side is: a state machine without clock, socket or thread
rounds.py      an owner of a protocol of rounds, among its neighbours
exchange.py    the arithmetic of gossip over links that fail
voice.py       what an owner of rounds says in each step: one message for ever, whatever crashes
hub.py         the aggregator of a protocol whose messages meet in one sum, and an owner that talks to it
walk.py        a model handed from owner to owner
held.py        what an owner of a walk has on its disk
peers.py       what it knows of the others, and how far it believes them
election.py    who may go on from where when the model is lost to view
visit.py       what an owner says at its visits: one message for each step, whatever crashes
learner.py     a learner that owners visit by their own clocks, and such an owner
side.py        the owner's program on its own records: the only code here that sees them
randomness.py  privacy noise from cryptographic sources
wire.py        what travels: typed, versioned, bounded, checked before anything is computed
journal.py     what a party remembers over a restart, beside its ledger
memory.py      peers in one process under a virtual clock, with faults injected
zenoh.py       peers over Eclipse Zenoh with mutual TLS
trust.py       certificates and who may write what
inbox.py       what has arrived, bounded for each sender and fair among them
refusals.py    what was refused, counted, and a log that cannot be flooded
door.py        who was turned away before a party heard of it
drive.py       runs a state machine on a transport and the wall clock
"""
