"""The way between parties. It may know nothing of records, protocols or budgets: frames come and go.

machine.py     what is driven: messages and the time go in, messages come out
wire.py        what travels: typed, versioned, bounded, checked before anything is computed
zenoh.py       peers over Eclipse Zenoh with mutual TLS
trust.py       certificates and who may write what
inbox.py       what has arrived, bounded for each sender and fair among them
refusals.py    what was refused, counted, and a log that cannot be flooded
door.py        who was turned away before a party heard of it
"""
