"""`python -m coterie`: the same as the `coterie` command, with this very interpreter."""

from coterie.cli import main

main()
