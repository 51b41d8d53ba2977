"""Workers that run in a process of their own, see tests/worker/running.py."""
