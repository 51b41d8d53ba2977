"""A health check that only reads, of an installation of pgqueue or of a live pgmq: `pgqueue doctor`."""

from pgqueue.doctor.examine import examine
from pgqueue.doctor.findings import Finding, Limits, Reading, Report, Severity

__all__ = ["Finding", "Limits", "Reading", "Report", "Severity", "examine"]
