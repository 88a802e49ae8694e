"""What is learnt, and from what: losses, penalties, models, features; data sets and who owns their rows."""
