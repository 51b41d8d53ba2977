"""Each ailment is made for real, found, mended by its own remedy, and then found no more."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pgqueue.doctor import Finding, Severity
from tests.compat.reference import reference_sql
from tests.databases import Cluster, our_sql
from tests.doctor.conftest import QUEUE, Make, Patient

Ailment = tuple[str, tuple[str, ...], str, list[str]]
BOTH, OURS, THEIRS = ("pgqueue", "pgmq"), ("pgqueue",), ("pgmq",)
VIEW = (
    "create view pgmq.q_{x} as select 1::bigint msg_id, 0 read_ct, now() enqueued_at, now() last_read_at,"
    " now() vt, '1'::jsonb message, null::jsonb headers"
)
OF_X = "where queue_name = '{x}'"
UNLISTED = f"delete from pgmq.meta {OF_X}"
LISTED = "update pgmq.meta set"
READY = "(msg_id) where isfinite(vt) and vt - enqueued_at < interval '1 second'"

PARTITIONED = ("select pgmq.drop_queue('{x}')", "select pgmq.create_partitioned('{x}', '10', '1000')",
               "select pgmq.send('{x}', '1') from generate_series(1, 12)")  # fmt: skip

#: What makes a queue {x} ill: name, of which kinds, check that finds it, statements.
OF_QUEUES = [
    ("table", BOTH, "table_missing", ["drop table pgmq.q_{x}"]),
    ("table-unlogged", BOTH, "table_missing", [f"{LISTED} is_unlogged = true {OF_X}", "drop table pgmq.q_{x}"]),
    ("table-partitioned", BOTH, "table_missing", [f"{LISTED} is_partitioned = true {OF_X}", "drop table pgmq.q_{x}"]),
    ("list", BOTH, "not_registered", [UNLISTED]),
    ("archive", BOTH, "archive_missing", ["drop table pgmq.a_{x}"]),
    ("view", BOTH, "not_a_table", ["drop table pgmq.q_{x}", VIEW]),
    ("archive-view", BOTH, "not_a_table", ["drop table pgmq.a_{x}", "create view pgmq.a_{x} as select 1"]),
    ("flags", BOTH, "list_is_wrong", [f"{LISTED} is_unlogged = true, is_partitioned = true {OF_X}"]),
    ("case", BOTH, "listed_twice", ["insert into pgmq.meta values (upper('{x}'), false, false)"]),
    ("column", BOTH, "column_missing", ["alter table pgmq.q_{x} drop column read_ct"]),
    ("archive-column", BOTH, "column_missing", ["alter table pgmq.a_{x} drop column archived_at"]),
    ("type", BOTH, "column_type", ["alter table pgmq.q_{x} alter column message type json using message::json"]),
    ("null", BOTH, "column_unguarded", ["alter table pgmq.q_{x} alter column vt drop not null"]),
    ("default", BOTH, "column_unguarded", ["alter table pgmq.q_{x} alter column read_ct drop default"]),
    ("required", BOTH, "column_in_the_way", ['alter table pgmq.a_{x} add "Tenant" int not null default 1',
                                           'alter table pgmq.a_{x} alter "Tenant" drop default']),
    ("identity", BOTH, "sequence_missing", ["alter table pgmq.q_{x} alter column msg_id drop identity"]),
    ("end", BOTH, "sequence_near_end", ["alter sequence pgmq.q_{x}_msg_id_seq maxvalue 100",
                                      "select setval('pgmq.q_{x}_msg_id_seq', 95)"]),
    ("behind", BOTH, "sequence_behind", ["select setval('pgmq.q_{x}_msg_id_seq', 1)"]),
    ("behind-archive", BOTH, "sequence_behind", ["select pgmq.archive('{x}', 3)", "delete from pgmq.q_{x}",
                                               "alter sequence pgmq.q_{x}_msg_id_seq restart"]),
    ("key", BOTH, "key_missing", ["alter table pgmq.q_{x} drop constraint q_{x}_pkey"]),
    ("archive-key", BOTH, "key_missing", ["alter table pgmq.a_{x} drop constraint a_{x}_pkey"]),
    ("ready", OURS, "index_missing", ["drop index pgmq.q_{x}_ready_idx"]),
    ("waiting", OURS, "index_missing", ["drop index pgmq.q_{x}_waiting_idx"]),
    ("archived", OURS, "index_missing", ["drop index pgmq.archived_at_idx_{x}"]),
    ("unlike", OURS, "index_unlike", ["drop index pgmq.q_{x}_ready_idx",
                                    "create index q_{x}_ready_idx on pgmq.q_{x} (msg_id) where vt is not null"]),
    ("twice", OURS, "index_twice", ["create index again_{x} on pgmq.q_{x} " + READY]),
    ("twice-pgmq", THEIRS, "index_twice", ["create index again_{x} on pgmq.q_{x} (vt)"]),
    ("twice-key", BOTH, "index_twice", ["create unique index again_{x} on pgmq.q_{x} (msg_id)"]),
    ("compiled", OURS, "compiled_missing", ['drop function pgqueue."{x}$send"']),
    ("floor", OURS, "compiled_missing", ['drop sequence pgqueue."{x}$walk"']),
    ("stale", OURS, "compiled_stale", ['create or replace function pgqueue."{x}$delete"(msg_id bigint) returns boolean'
                                     " language sql as 'select true'"]),
    ("closed", OURS, "compiled_closed", ['revoke execute on function pgqueue."{x}$send" from public']),
    ("silent", BOTH, "notify_without_throttle", ["select pgmq.enable_notify_insert('{x}')",
                                               "delete from pgmq.notify_insert_throttle where queue_name = '{x}'"]),
    ("deaf", BOTH, "throttle_without_notify", ["select pgmq.enable_notify_insert('{x}', 7)",
                                             "drop trigger trigger_notify_queue_insert_listeners on pgmq.q_{x}"]),
    ("disabled", BOTH, "throttle_without_notify", ["select pgmq.enable_notify_insert('{x}')",
                                                 "alter table pgmq.q_{x} disable trigger user"]),
    ("stamp", OURS, "notify_unlike", ["select pgmq.enable_notify_insert('{x}')",
                                     'drop sequence pgqueue."{x}$notified"']),
    ("deferred", OURS, "notify_unlike", [
        "select pgmq.enable_notify_insert('{x}')",
        "drop trigger trigger_notify_queue_insert_listeners on pgmq.q_{x}",
        "create constraint trigger trigger_notify_queue_insert_listeners after insert on pgmq.q_{x}"
        " deferrable for each row execute function pgmq.notify_queue_listeners('{x}')",
    ]),
    ("open", BOTH, "table_open", ["grant select, insert on pgmq.q_{x} to public"]),
    ("no-vacuum", BOTH, "autovacuum_off", ["alter table pgmq.a_{x} set (autovacuum_enabled = off)"]),
    ("spilled", OURS, "rows_spilled", ["select pgmq.drop_queue('{x}')",
                                     "select pgmq.create_partitioned('{x}', '10', '1000')",
                                     "select pgmq.send('{x}', '1') from generate_series(1, 70)"]),
    ("overdue", OURS, "upkeep_overdue", ["select pgmq.drop_queue('{x}')",
                                     "select pgmq.create_partitioned('{x}', '10', '1000')",
                                       "select pgmq.send('{x}', '1') from generate_series(1, 45)"]),
    ("renamed", BOTH, "archive_missing", ["alter table pgmq.a_{x} rename to kept_{x}"]),
    ("renamed-table", OURS, "table_missing", ["alter table pgmq.q_{x} rename to kept_{x}"]),
    ("no-default", OURS, "default_missing", [*PARTITIONED, 'drop table pgmq."q_{x}$default"']),
    ("lost-default", OURS, "default_missing", [*PARTITIONED,
                                             'alter table pgmq.q_{x} detach partition pgmq."q_{x}$default"']),
    ("detached", OURS, "partition_detached", [*PARTITIONED,
                                            'alter table pgmq.q_{x} detach partition pgmq."q_{x}$p0"']),
    ("detached-archive", OURS, "partition_detached", [
        "select pgmq.convert_archive_partitioned('{x}', '10', '1000')",
        'alter table pgmq.a_{x} detach partition pgmq."a_{x}$p0"',
    ]),
    ("published", OURS, "queue_without_identity", [*PARTITIONED, "create publication {x} for table pgmq.q_{x}"]),
    ("published-time", OURS, "queue_without_identity", [
        "select pgmq.drop_queue('{x}')",
        "select pgmq.create_partitioned('{x}', '1 day', '10 days')",
        "create publication {x} for table pgmq.q_{x} with (publish_via_partition_root)",
    ]),
    ("published-bare", BOTH, "queue_without_identity", [
        "alter table pgmq.q_{x} replica identity nothing",
        "create publication {x} for table pgmq.q_{x}, pgmq.a_{x}",
    ]),
    ("expired", OURS, "upkeep_overdue", ["select pgmq.drop_queue('{x}')",
                                     "select pgmq.create_partitioned('{x}', '10', '10')",
                                       "select pgmq.send('{x}', '1') from generate_series(1, 35)"]),
]  # fmt: skip

#: What makes an installation ill, with a queue x.
OF_INSTALLATIONS = [
    ("function", OURS, "function_missing", ["drop function pgqueue.peek"]),
    ("overload", OURS, "function_missing", ["drop function pgmq.send(text, jsonb, integer)"]),
    ("drift", OURS, "function_drifted", ["create or replace function pgqueue._forget(p_name text) returns void"
                                       " language sql as 'select'"]),
    ("foreign", OURS, "function_foreign", ["create function pgmq.send(a int) returns int language sql as 'select 1'"]),
    ("left-over", OURS, "compiled_left_over", [UNLISTED.format(x="x"), "drop table pgmq.q_x, pgmq.a_x"]),
    ("unlogged", THEIRS, "throttle_unlogged", ["select pgmq.enable_notify_insert('x')"]),
    ("create", BOTH, "schema_open", ["grant create on schema pgmq to public"]),
    ("usage", BOTH, "schema_open", ["grant usage on schema pgmq to public"]),
    ("open-list", BOTH, "table_open", ["grant update on pgmq.meta to public"]),
    ("open-default", BOTH, "default_rights_open", [
        "alter default privileges in schema pgmq grant select on tables to public"
    ]),
    ("stray", BOTH, "throttle_of_nobody", [
        "alter table pgmq.notify_insert_throttle drop constraint notify_insert_throttle_meta_queue_name_fk",
        "insert into pgmq.notify_insert_throttle (queue_name) values ('gone')",
    ]),
    ("published-list", BOTH, "list_without_identity", [
        "alter table pgmq.meta replica identity nothing", "create publication lists for table pgmq.meta",
    ]),
    ("detached-of-nobody", OURS, "partition_detached", [
        "select pgmq.create_partitioned('y', '10', '1000')",
        'alter table pgmq.q_y detach partition pgmq."q_y$p0"', "select pgmq.drop_queue('y')",
    ]),
    ("binding", BOTH, "binding_of_nobody", [
        "alter table pgmq.topic_bindings drop constraint topic_bindings_meta_queue_name_fk",
        "insert into pgmq.topic_bindings (pattern, queue_name) values ('a.*', 'gone')",
    ]),
]  # fmt: skip


def each(ailments: list[Ailment]) -> list[Any]:
    """As parameters: check, statements, kind."""
    return [
        pytest.param(kind, name.replace("-", "_"), check, statements, id=f"{name}-{kind}")
        for name, kinds, check, statements in ailments
        for kind in kinds
    ]


@dataclass
class Ward:
    """A patient with all ailments of queues at once, before and after."""

    before: list[Finding]
    after: list[Finding]


@pytest.fixture(scope="module")
def wards(server: Cluster) -> Iterator[Callable[[str], Ward]]:
    """The ward of a kind: queues named for their ailments, made ill, examined, mended, examined again."""
    patients = []

    @functools.cache
    def ward(kind: str) -> Ward:
        script = our_sql() if kind == "pgqueue" else reference_sql()
        patient = Patient(server.create_database(server.template(script)))
        patients.append(patient)
        for parameters in each(OF_QUEUES):
            its_kind, queue, _, statements = parameters.values
            if its_kind == kind:
                patient.do(*(step.format(x=queue) for step in (*QUEUE, *statements)))
        before = list(patient.report().findings)
        for finding in before:
            if finding.queue:
                patient.mend(finding)
        return Ward(before, list(patient.report().findings))

    yield ward
    for patient in patients:
        patient.database.drop()


@pytest.mark.parametrize(("kind", "queue", "check", "statements"), each(OF_QUEUES))
def test_a_queue_is_found_ill_and_mended(
    wards: Callable[[str], Ward], kind: str, queue: str, check: str, statements: list[str]
) -> None:
    ward = wards(kind)
    found = [finding for finding in ward.before if finding.queue == queue and finding.check == check]
    assert found, [finding for finding in ward.before if finding.queue == queue]
    assert Severity.UNSEEN not in {finding.severity for finding in found}
    assert [finding for finding in ward.after if finding.queue == queue] == []


@pytest.mark.parametrize(("kind", "name", "check", "statements"), each(OF_INSTALLATIONS))
def test_an_installation_is_found_ill_and_mended(
    make: Make, kind: str, name: str, check: str, statements: list[str]
) -> None:
    patient = make(kind)
    patient.do(*statements)
    for finding in patient.findings(check) or pytest.fail(f"{check} found nothing"):
        assert finding.severity != Severity.UNSEEN
        patient.mend(finding)
    assert patient.findings(check) == []
