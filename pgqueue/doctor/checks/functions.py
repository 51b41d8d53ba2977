"""Functions of pgqueue that are not as this package has them."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, error, unseen, warning
from pgqueue.doctor.packaged import packaged
from pgqueue.doctor.survey import Survey
from pgqueue.script import package_version

#: So many are named one by one; beyond that the whole of them is to be renewed.
MANY = 5
RENEW = "-- in a shell; it renews every function, and leaves queues and messages alone\n-- pgqueue install"


def version_differs(survey: Survey) -> Iterator[Finding]:
    """The database has the functions of another version of pgqueue than this program."""
    if survey.ours and survey.version is not None and not survey.current:
        yield warning(
            f"pgqueue {survey.version} is installed, and this program is {package_version()}",
            "what was mended since is not in the database; the functions were not compared",
            "-- in a shell, with the newer program\n-- pgqueue upgrade",
        )


def function_missing(survey: Survey) -> Iterator[Finding]:
    """One that the package installs and the database does not have."""
    names = [name for name, one in survey.differences.items() if one.lost > len(one.strange)]
    for what, remedy in _told(names, "missing"):
        yield error(what, "calls of it, or of those that need it, fail", remedy)


def function_drifted(survey: Survey) -> Iterator[Finding]:
    """One that somebody changed."""
    names = [name for name, one in survey.differences.items() if one.lost and one.strange]
    for what, remedy in _told(names, "not as the package has it"):
        yield warning(what, "it may do anything else, and the next upgrade undoes it", remedy)


def function_foreign(survey: Survey) -> Iterator[Finding]:
    """An overload of somebody else's beside one of ours."""
    for name, one in survey.differences.items():
        if not one.lost:
            for signature in one.strange:
                yield warning(
                    f"the function {signature} is not the package's, and bears the name of one of its own",
                    f"calls of {name} may reach it instead, or be refused as ambiguous",
                    f"drop function {signature};",
                )


def functions_not_run(survey: Survey) -> Iterator[Finding]:
    """Some checks ask functions of pgqueue; where those are not the package's, the doctor does not run them."""
    if survey.current and not survey.trusted:
        yield unseen(
            "whether compiled functions are stale, and whether upkeep is overdue",
            "functions of schema pgqueue are not the package's, so the doctor does not run them",
            "-- mend the functions first, see the other findings; then ask again",
        )


def _told(names: list[str], what: str) -> Iterator[tuple[str, str]]:
    """What is to say of some functions, and the remedy."""
    if len(names) > MANY:
        first = ", ".join(sorted(names)[:MANY])
        yield f"{len(names)} functions are {what}: {first} …", RENEW
        return
    for name in names:
        yield f"the function {name} is {what}", "\n".join(packaged()[name].statements)
