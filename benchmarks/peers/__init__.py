"""Peers that need libraries of their own: run by `.venv-bench`, spoken to over standard output."""
