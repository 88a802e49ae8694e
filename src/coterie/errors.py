"""Every error a user can cause, in one tree.

CoterieError
├── InputError      an argument, file, graph or data set is not usable        (exit status 2)
│   └── RecordsError    an owner's records are not; why is for its own eyes
├── BudgetError     what was asked for would cost more than the owner allows  (exit status 3)
├── LedgerError     more has left than the owner's ledger knows of            (exit status 3)
├── ProcessError    a process that the run needs cannot be reached, or died   (exit status 4)
├── OutputError     what was to be shown cannot be written; the work is done  (exit status 5)
└── UnforeseenError a fault of ours or of a library, next to records          (exit status 1)

PrivacyLeakWarning    a warning: something is computed from private records that no certificate covers

A message is one line that names the argument, its value, the bound and the remedy.
"""


class CoterieError(Exception):
    """Root of the tree; `exit_status` is what the command line returns for it."""

    exit_status = 2


class InputError(CoterieError):
    """An argument, file, graph or data set is not usable."""


class RecordsError(InputError):
    """An owner's records do not fit what was agreed. The message is made of them: for their owner's terminal alone."""


class BudgetError(CoterieError):
    """What was asked for would cost more privacy than the owner allows."""

    exit_status = 3


class LedgerError(CoterieError):
    """More has left an owner than its ledger knows of, or might: nothing may leave until that is put right."""

    exit_status = 3


class ProcessError(CoterieError):
    """A process that the run needs cannot be reached, or died."""

    exit_status = 4


class PrivacyLeakWarning(UserWarning):
    """Something computed from private records that no certificate covers: what, and the remedy."""


class OutputError(CoterieError):
    """What was to be shown cannot be written; what the command did stands."""

    exit_status = 5


class UnforeseenError(CoterieError):
    """A fault of ours or of a library next to records: class and place (`_unforeseen.told`), never what it said."""

    exit_status = 1
