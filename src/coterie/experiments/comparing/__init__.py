"""Protocols beside each other, over budgets and seeds: what was asked, its finished cells on disk, what they say."""
