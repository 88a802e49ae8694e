"""What a run or a guarantee looks like: statements and promises in words, figures, the page.

They may know problems, accounting and plain values of a run; never how it was run. Nothing here computes from records.
"""
