"""Run any program: in one process, over devices and hosts, among real owners. All of them take the same steps.

They may know programs, their plans, mechanisms, topologies and accounting; never which protocol they run.
"""
