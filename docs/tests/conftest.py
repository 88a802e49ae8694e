"""Pages are played with programs compiled quickly: what they show are words, and numbers to two or three digits."""

import os
from functools import cache

import compiling
from typer import testing

os.environ["XLA_FLAGS"] = f"{compiling.QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # as in tests/conftest.py
compiling.share_contexts()
testing._get_command = cache(testing._get_command)  # read once which commands there are, not for every call
