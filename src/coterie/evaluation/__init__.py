"""Charged selection and evaluation: which model is best, and how good, in numbers that owners may publish. It may know
problems, plans and accounting, and neither protocols nor who runs them.

sheet.py     what a record adds to its owner's table of scores, in whole numbers, and how far one record moves it
tables.py    an owner's table over its records, and the simulator's noise
selection.py which of the models that the same releases give is best: candidates, sums of losses, the choice
budget.py    which share of a budget pays for it, what is left for training, what it will be able to tell
held.py      rows that an owner keeps out of training to evaluate on
groups.py    groups of records by a declared column's values
estimate.py  from the sum of noisy tables to metrics with 95 % intervals: post-processing, free of charge
curves.py    what bands of scores tell of AUC and average precision
told.py      the published numbers as values and JSON
words.py     and in words
"""

DEFAULT_SHARE = 0.05  # of the budget, between real owners
