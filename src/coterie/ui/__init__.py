"""The page of `coterie ui`: a graphical interface to the command line, on this machine alone.

It may know reports, runs and status files; it asks the command line for plans, and training runs in processes of its
own. Its modules need the extra `ui`; `cli.ui` says so where it is missing.
"""
