"""The way out of an owner: nothing made of its records leaves it but through here. It may know the ledger and frames.

side.py        the owner's program on its own records: the only code of a real run that sees them
randomness.py  privacy noise from cryptographic sources
release.py     charged and on the disk first, and then sent
memory.py      an owner's private state between its releases
journal.py     what a party remembers over a restart, beside its ledger
marks.py       what parties remember of each other's releases, sealed by who made them
witness.py     what a party must hear from its peers before it speaks, and one process under a name
"""
