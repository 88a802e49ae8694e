"""What a budget buys, before anybody trains: settings, forecasts, and whether joining pays. Reads no record but where
`join` says so.

It may know problems, topologies, accounting and protocols; it runs nothing.
"""
