"""The benchmark: workloads run on pgqueue and on pgmq in turns, what must come out, reports.

A workload says what it does in `workloads/`; what it must show stands in `bars.py` and nowhere else. A run
makes databases of its own on the server it is given and drops them afterwards.
"""
