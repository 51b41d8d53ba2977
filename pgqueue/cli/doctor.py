"""pgqueue doctor: a health check that only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from pgqueue.cli import server
from pgqueue.cli.options import json_option, server_option
from pgqueue.cli.output import bar, note, print_json, print_table, row, say
from pgqueue.names import counted

if TYPE_CHECKING:
    from pgqueue.doctor import Finding, Reading, Report

NEVER = "never"
SHOWN_READS = 20
"""Queues whose reads are shown to people, those that walk most."""
SHOWN_ALIKE = 3
"""Findings of one check that are shown to people in full."""
KINDS = {
    "pgqueue": "pgqueue {version}",
    "extension": "pgmq {version}, the extension",
    "sql": "pgmq {version} by its functions, without the extension",
}


@click.command()
@click.option(
    "--queue", metavar="NAME", help="Look at this queue alone, not at the installation or the server."
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "unseen", "info", NEVER]),
    default="warning",
    show_default=True,
    help="Exit with 1 from a finding of this severity on.",
)
@json_option
@server_option
def doctor(queue: str | None, fail_on: str, as_json: bool, dsn: str | None) -> None:
    """Examine an installation, of pgqueue or of pgmq, and change nothing.

    Says what one read of each queue walks, what is not as it should be, why that matters, and the SQL that
    mends it. Works on a pgmq with nothing of pgqueue installed (any 1.x, with the extension or without) and
    on a busy server: it only reads, in short transactions that lock no message and wait for nobody.

    \b
    Severities, worst first:
      error    calls fail, messages do not arrive, or strangers get at them
      warning  works today, and will cost or fail later
      unseen   could not be looked at: a right is missing, or a table is locked
      info     good to know
    \b
    Exit codes, for monitoring:
      0  nothing found from --fail-on on
      1  something was found, or nothing could be examined; stderr says which
      2  the command was not understood
    \b
    Examples:
      pgqueue doctor
      pgqueue doctor --queue orders --fail-on error
      pgqueue doctor --json --fail-on never
    """
    from pgqueue.doctor import Severity, examine

    with server.connection(dsn) as conn, bar() as progress:
        report = examine(conn, queue, progress=progress)
    if as_json:
        print_json(_lines(report))
    else:
        _show(report)
    if fail_on != NEVER and any(one.severity >= Severity[fail_on.upper()] for one in report.findings):
        note(f"unwell: {_counted(report.findings)}")
        raise click.exceptions.Exit(1)


def _lines(report: Report) -> Iterator[dict[str, Any]]:
    """The report for programs: one object for the installation, one a queue, one a finding."""
    yield {"record": "installation", **row(report, "readings", "findings")}
    for reading in report.readings:
        yield {"record": "read", **_rounded(row(reading))}
    for finding in report.findings:
        yield {"record": "finding", **row(finding), "severity": str(finding.severity)}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds to the microsecond: what floats add to that is no measurement."""
    return {name: round(one, 3) if isinstance(one, float) else one for name, one in values.items()}


# --- for people ------------------------------------------------------------------------------------


def _show(report: Report) -> None:
    what = KINDS[report.kind].format(version=report.version or "of unknown version")
    where = f"database {report.database}, Postgres {report.server_version}"
    say(f"{what}, in {where}: {counted(report.queues, 'queue')}")
    if report.readings:
        say("")
        _show_readings(report)
    say("")
    if not report.findings:
        say("nothing found: all is well")
        return
    say(f"{_counted(report.findings)}:")
    for finding in _shown(report.findings):
        _show_finding(finding)
    for check, number in Counter(one.check for one in report.findings).items():
        if number > SHOWN_ALIKE:
            say("")
            say(f"… and {number - SHOWN_ALIKE} more of {check}: pgqueue doctor --json has them all")


def _counted(findings: Sequence[Finding]) -> str:
    """1 error, 2 warnings, 1 unseen, 3 info."""
    numbers = Counter(one.severity for one in findings)
    return ", ".join(
        f"{number} {severity}{'s' if number > 1 and str(severity) in ('error', 'warning') else ''}"
        for severity, number in sorted(numbers.items(), reverse=True)
    )


def _show_readings(report: Report) -> None:
    """What a read walks, worst first."""
    longest = sorted(report.readings, key=lambda one: (one.rows is not None, -(one.rows or 0), one.queue))
    print_table([_cells(report, one) for one in longest[:SHOWN_READS]])
    rest = longest[SHOWN_READS:]
    if rest:
        most = max(one.rows or 0 for one in rest)
        say(f"… and {counted(len(rest), 'queue')} more, whose reads walk {counted(most, 'row')} or less")
    if report.kind != "pgqueue":
        _show_gain(longest)


def _cells(report: Report, reading: Reading) -> dict[str, str | None]:
    """A line of the table; numbers as people write them."""
    if reading.rows is None:
        walked = f"not measured: {reading.problem}"
    else:
        walked = f"{reading.walked}, {reading.milliseconds:.1f} ms"
    cells = {"queue": reading.queue, "messages": f"about {reading.messages:,}", "one read walks": walked}
    return {**cells, "adopted by pgqueue": None if report.kind == "pgqueue" else reading.adopted}


def _show_gain(longest: Sequence[Reading]) -> None:
    """The reason to switch, on their own data."""
    for reading in longest:
        if reading.gains:
            say("")
            say(
                f"A read of {reading.queue} walks {reading.walked}; adopted by pgqueue, {reading.adopted}."
                " To see how: pgqueue adopt --dry-run"
            )
            return


def _shown(findings: Sequence[Finding]) -> Iterator[Finding]:
    """The first few of each check."""
    shown: Counter[str] = Counter()
    for finding in findings:
        shown[finding.check] += 1
        if shown[finding.check] <= SHOWN_ALIKE:
            yield finding


def _show_finding(finding: Finding) -> None:
    say("")
    queue = f"{finding.queue}: " if finding.queue else ""
    check = f"  [{finding.check}]" if finding.check else ""
    say(f"{finding.severity}: {queue}{finding.what}{check}")
    say(f"    {finding.why}")
    for line in finding.remedy.splitlines():
        say(f"        {line}")
