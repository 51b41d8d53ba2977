"""Functions that differ in number, and an installation of another version."""

from __future__ import annotations

from pgqueue import migrate
from pgqueue.doctor import Severity
from pgqueue.doctor.checks.functions import MANY
from pgqueue.doctor.packaged import packaged
from pgqueue.script import package_version
from tests.doctor.conftest import Patient


def test_every_function_of_the_package_is_compared(ours: Patient) -> None:
    present = ours.conn.execute(
        "select concat(n.nspname, '.', p.proname), count(*) from pg_proc p"
        " join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname in ('pgmq', 'pgqueue') and strpos(p.proname, '$') = 0 group by 1"
    ).fetchall()
    assert {name: len(one.statements) for name, one in packaged().items()} == dict(present)


def test_many_are_named_in_one_finding(ours: Patient) -> None:
    ours.do(*(f"drop function {name}" for name in ["pgqueue.peek", "pgqueue.counts", "pgqueue.fetch"]))
    ours.do(
        "drop function pgqueue.maintain",
        "drop function pgqueue.decompile",
        "drop function pgmq.detach_archive",
    )
    found = ours.finding("function_missing")
    assert found.what.startswith(f"{MANY + 1} functions are missing: pgmq.detach_archive, ")
    assert "pgqueue install" in found.remedy
    migrate.install(ours.conn)
    assert ours.findings("function_missing") == []


def test_another_version_is_told_and_its_functions_are_not_compared(ours: Patient) -> None:
    (definition,) = ours.conn.execute("select pg_get_functiondef('pgqueue.version'::regproc)").fetchone() or (
        "",
    )
    ours.do(definition.replace(f"'{package_version()}'", "'0.0.1'"), "drop function pgqueue.peek")
    report = ours.report()
    assert report.version == "0.0.1"
    assert [(one.check, one.severity) for one in report.findings] == [("version_differs", Severity.WARNING)]
    assert "pgqueue upgrade" in report.findings[0].remedy
    migrate.upgrade(ours.conn)
    assert ours.report().findings == ()


def test_functions_that_are_not_the_packages_are_not_run(ours: Patient) -> None:
    """The doctor may be a superuser, and whoever owns the schema need not be one."""
    definition = ours.conn.execute("select pg_get_functiondef('pgqueue._filled'::regproc)").fetchone()
    assert definition is not None
    ours.do(definition[0].replace("begin\n", "begin\n    raise 'sprung';\n"))
    report = ours.report(user=ours.database.superuser)
    assert [one.check for one in report.findings] == ["function_drifted", "functions_not_run"]
    assert report.findings[1].severity == Severity.UNSEEN
    ours.mend(report.findings[0])
    assert ours.report().findings == ()


def test_an_overload_that_would_be_called_instead_is_not_run_either(ours: Patient) -> None:
    ours.do(
        "create function pgqueue._wants_compiling(p_name varchar) returns boolean language plpgsql"
        " as $$begin raise 'sprung'; end$$"
    )
    report = ours.report()
    assert [one.check for one in report.findings] == ["function_foreign", "functions_not_run"]
    ours.mend(report.findings[0])
    assert ours.report().findings == ()
