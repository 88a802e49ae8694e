"""What is learnt, and from what: losses, penalties, models, features; data sets and who owns their rows.

It may know mechanisms, which clip what it computes; no protocol and no engine.
"""
