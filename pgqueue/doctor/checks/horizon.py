"""Who holds back the horizon: while an old snapshot is open anywhere, vacuum can remove nothing that died since."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pgqueue.doctor.findings import Finding, unseen, warning
from pgqueue.doctor.survey import Survey
from pgqueue.sqltext import ident, literal

WHY = "no row that died since can be removed: tables grow, and pgmq's reads get slower with every message"

#: Snapshots in other databases hold back nothing here; vacuum's own, which are no user's, do nowhere.
_SESSIONS = """
select
    a.pid,
    coalesce(a.state, 'disabled') = 'disabled' as hidden,
    a.usename::text as role,
    a.application_name as application,
    a.state,
    a.xact_start::timestamptz(0)::text as since,
    extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds,
    greatest(age(a.backend_xmin), age(a.backend_xid)) as xids
from pg_stat_activity a
where a.datname = current_database()
    and (a.backend_xmin is not null or a.backend_xid is not null)
    and a.pid <> pg_backend_pid()
    and a.usesysid is not null
    and coalesce(a.backend_type, '') <> 'walsender'
order by a.xact_start
"""

#: What every role may see of a transaction that runs.
_TRANSACTIONS = """
select l.pid, l.virtualtransaction as transaction
from pg_locks l
where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.pid = any(%s)
"""

_PREPARED = """
select
    p.gid,
    p.owner::text as role,
    p.prepared::timestamptz(0)::text as since,
    extract(epoch from clock_timestamp() - p.prepared)::float8 as seconds
from pg_prepared_xacts p
where p.database = current_database()
order by p.prepared
"""

#: As JSON, since inactive_since is there from Postgres 17 on.
_SLOTS = """
select
    s.slot_name::text as name,
    s.active,
    age(s.xmin) as xids,
    (to_jsonb(s) ->> 'inactive_since')::timestamptz(0)::text as since
from pg_replication_slots s
where s.xmin is not null
order by s.slot_name
"""

_STANDBYS = """
select
    r.pid,
    r.application_name as application,
    host(r.client_addr) as address,
    age(r.backend_xmin) as xids
from pg_stat_replication r
where r.backend_xmin is not null
order by r.pid
"""


def horizon_session(survey: Survey) -> Iterator[Finding]:
    """A transaction that has been open for long."""
    for row in survey.look.rows(_SESSIONS):
        if row.seconds is not None and row.seconds >= survey.limits.pinned_seconds:
            yield warning(
                f"{_who(row)} has a transaction open since {row.since} ({_span(row.seconds)})",
                WHY,
                f"-- ask {row.role} first: it ends that session, and its work is lost\n"
                f"select pg_terminate_backend({row.pid});",
            )


def horizon_hidden(survey: Survey) -> Iterator[Finding]:
    """Transactions of others that go on, of which this role may not see when they began."""
    pids = [row.pid for row in survey.look.rows(_SESSIONS) if row.hidden]
    going = set(survey.look.rows(_TRANSACTIONS, pids)) if pids else set()
    end = time.monotonic() + survey.limits.hidden_seconds
    while going and time.monotonic() < end:
        time.sleep(survey.limits.hidden_seconds / 20)
        going &= set(survey.look.rows(_TRANSACTIONS, pids))
    if going:
        named = ", ".join(str(row.pid) for row in sorted(going)[:5])
        yield unseen(
            f"since when the transactions of {len(going)} other sessions are open (processes {named})",
            "this role may not see the activity of others",
            f"-- as a superuser\ngrant pg_read_all_stats to {survey.role};",
        )


def horizon_prepared(survey: Survey) -> Iterator[Finding]:
    """A prepared transaction that nobody has ended: it outlives its session, and the server too."""
    for row in survey.look.rows(_PREPARED):
        if row.seconds >= survey.limits.pinned_seconds:
            gid = literal(row.gid)
            yield warning(
                f"{row.role} left a prepared transaction {gid} since {row.since} ({_span(row.seconds)})",
                WHY,
                f"-- if its coordinator knows nothing of it any more\nrollback prepared {gid};",
            )


def horizon_slot(survey: Survey) -> Iterator[Finding]:
    """A replication slot that keeps rows for a standby: one that is away, or far behind."""
    for row in survey.look.rows(_SLOTS):
        if not row.active or row.xids >= survey.limits.pinned_xids:
            away = (
                f"is not in use{f', since {row.since},' if row.since else ''} and" if not row.active else ""
            )
            yield warning(
                " ".join(
                    f"the replication slot {row.name} {away} keeps rows of {row.xids:,} transactions ago".split()
                ),
                WHY,
                f"-- if its standby is gone for good\nselect pg_drop_replication_slot({literal(row.name)});",
            )


def horizon_standby(survey: Survey) -> Iterator[Finding]:
    """A standby that asks by hot_standby_feedback for rows that its long queries need."""
    for row in survey.look.rows(_STANDBYS):
        if row.xids >= survey.limits.pinned_xids:
            place = f" at {row.address}" if row.address else ""
            yield warning(
                f"the standby {row.application}{place} keeps rows of {row.xids:,} transactions ago,"
                " by hot_standby_feedback",
                WHY,
                "-- on that standby: end its long queries, or\n"
                "-- alter system set hot_standby_feedback = off;\n-- select pg_reload_conf();",
            )


def _who(row: Any) -> str:
    application = f", {ident(row.application)}," if row.application else ""
    idle = " (idle)" if (row.state or "").startswith("idle") else ""
    return f"process {row.pid} of {row.role}{application}{idle}"


def _span(seconds: float) -> str:
    """1 s, 5 min, 3 h, 2 days."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
