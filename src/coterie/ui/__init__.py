"""The page of `coterie ui`: a face for what the command line does, on this machine alone.

It may know reports, runs and status files; what it plans it asks the command line, and what it trains runs in processes
of their own. Its modules need the extra `ui`; `cli.ui` says so where it is missing.
"""
