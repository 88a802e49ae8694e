"""Real owners: the agreement they share, the files each of them gets, and one party's whole run."""
