"""Speed, measured: every case beside its floor and its peers, in one process. Timings are ratios, never tests."""
