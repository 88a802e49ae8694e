"""An experiment as a value: made ready, run, certified, judged, written to a folder and read back.

It may know everything but the command line, which is all that may know it.
"""
