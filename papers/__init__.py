"""Paper code, outside the installed package: what was published, run again with coterie and set beside it."""
