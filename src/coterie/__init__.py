"""Several owners learn one model; nobody hands over a record; everyone can check what the privacy was."""
