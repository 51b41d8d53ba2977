"""What the functions of an old pgmq do here: enough for clients to live on it, in our own words.

A body is keyed by the function's name, or by its name and argument types where overloads differ. The marks
in it are filled in by layouts.py with what the version's tables have:

    <q> <a>          the queue's and the archive's table, as text to be quoted by %I
    <claimed>        what read returns: the columns of a message, in the order of pgmq.message_record
    <all>            what pop and set_vt return: the same, and until 1.10 whatever the table has
    <kept>           the columns that go from a queue to its archive
    <read>           what reading writes besides vt and read_ct
    <headers>        ", headers" where there are headers
    <q columns> <a columns>    the columns of a new queue's tables

A function that is not named here exists with its signature and raises when called.
"""

from __future__ import annotations

#: Queues' tables belonged to the extension once; whoever creates or drops one tells the extension so.
OWNED = "exists (select from pg_catalog.pg_extension where extname = 'pgmq')"

_CREATE = """
begin
    perform pgmq.validate_queue_name(queue_name);
    execute format('create <unlogged> table if not exists pgmq.%1$I (<q columns>, primary key (msg_id))', <q>);
    execute format('create table if not exists pgmq.%1$I (<a columns>, primary key (msg_id))', <a>);
    <adding>
    execute format('create index if not exists %I on pgmq.%I (vt)', <q> || '_vt_idx', <q>);
    execute format('create index if not exists %I on pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, <a>);
    execute 'insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ($1, false, <is unlogged>)
        on conflict do nothing' using queue_name;
end"""

_PARTITIONED = """
declare
    v_column text := pgmq._get_partition_col(partition_interval);
    v_type text := (select case when extversion like '5.%' then 'range' else 'native' end
        from pg_catalog.pg_extension where extname = 'pg_partman');
    v_schema text := (select extnamespace::regnamespace from pg_catalog.pg_extension where extname = 'pg_partman');
    v_archive_column text := case v_column when 'msg_id' then 'msg_id' else 'archived_at' end;
begin
    perform pgmq._ensure_pg_partman_installed();
    execute format('create table pgmq.%I (<q columns>) partition by range (%I)', <q>, v_column);
    execute format('create table pgmq.%I (<a columns>) partition by range (%I)', <a>, v_archive_column);
    <adding>
    execute format('select %s.create_parent(p_parent_table := %L, p_control := %L, p_interval := %L, p_type := %L)',
        v_schema, 'pgmq.' || <q>, v_column, partition_interval, v_type);
    execute format('select %s.create_parent(p_parent_table := %L, p_control := %L, p_interval := %L, p_type := %L)',
        v_schema, 'pgmq.' || <a>, v_archive_column, partition_interval, v_type);
    execute format('update %s.part_config set retention = %L, retention_keep_table = false,
        retention_keep_index = true, automatic_maintenance = ''on'' where parent_table in (%L, %L)',
        v_schema, retention_interval, 'pgmq.' || <q>, 'pgmq.' || <a>);
    execute format('create index %I on pgmq.%I (%I)', <q> || '_part_idx', <q>, v_column);
    execute format('create index %I on pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, <a>);
    execute 'insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ($1, true, false)'
        using queue_name;
end"""

_CLAIM = """format($q$
        with picked as (
            select msg_id from pgmq.%1$I where vt <= clock_timestamp() <matching>
            order by msg_id limit $1 for update skip locked
        )
        update pgmq.%1$I m
        set vt = clock_timestamp() + make_interval(secs => $2), read_ct = m.read_ct + 1 <read>
        from picked where m.msg_id = picked.msg_id
        returning <claimed>$q$, <q>) using qty, vt <given>"""

_READ = f"""
begin
    return query execute {_CLAIM};
end"""

# It does not call read, so that whoever is inside goes on with what he began with.
_READ_WITH_POLL = f"""
declare
    v_end timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
    v_message pgmq.message_record;
begin
    while clock_timestamp() < v_end loop
        for v_message in execute {_CLAIM} loop
            return next v_message;
        end loop;
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end"""

# This one does call it.
_GROUPED_WITH_POLL = """
declare
    v_end timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
    v_message pgmq.message_record;
begin
    while clock_timestamp() < v_end loop
        for v_message in select * from pgmq.read_grouped(queue_name, vt, qty) loop
            return next v_message;
        end loop;
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end"""

_DROP_QUEUE = """
begin
    if to_regclass(format('pgmq.%I', <q>)) is null then
        return false;
    end if;
    <releasing>
    execute format('drop table pgmq.%I', <q>);
    execute format('drop table if exists pgmq.%I', <a>);
    execute 'delete from pgmq.meta where queue_name = $1' using queue_name;
    return true;
end"""

_METRICS = """
declare
    v_result pgmq.metrics_result;
begin
    execute format($q$
        select %L::text, count(*), extract(epoch from now() - max(enqueued_at))::integer,
            extract(epoch from now() - min(enqueued_at))::integer,
            (select case when is_called then last_value else 0 end from pgmq.%I), now() <metrics>
        from pgmq.%I$q$, queue_name, <q> || '_msg_id_seq', <q>) into v_result;
    return v_result;
end"""

_MOVE = """
        with gone as (delete from pgmq.%I where msg_id = any($1) returning <kept>)
        insert into pgmq.%I (<kept>) select <kept> from gone returning msg_id"""

_NOTIFY = """
declare
    v_count integer;
begin
    execute 'update pgmq.notify_insert_throttle set last_notified_at = clock_timestamp()
        where queue_name = $1 and clock_timestamp() - last_notified_at
            >= throttle_interval_ms * interval ''1 millisecond''' using substr(tg_table_name, 3);
    get diagnostics v_count = row_count;
    if v_count > 0 then
        perform pg_notify('pgmq.' || tg_table_name || '.' || tg_op, null);
    end if;
    return new;
end"""

_ENABLE_NOTIFY = """
declare
    v_count integer;
begin
    perform pgmq.disable_notify_insert(queue_name);
    execute 'insert into pgmq.notify_insert_throttle (queue_name, throttle_interval_ms) values ($1, $2)'
        using queue_name, throttle_interval_ms;
    execute format('create constraint trigger trigger_notify_queue_insert_listeners after insert on pgmq.%I
        deferrable for each row execute function pgmq.notify_queue_listeners()', <q>);
end"""

_DISABLE_NOTIFY = """
declare
    v_count integer;
begin
    execute format('drop trigger if exists trigger_notify_queue_insert_listeners on pgmq.%I', <q>);
    execute 'delete from pgmq.notify_insert_throttle where queue_name = $1' using queue_name;
end"""

_SEND_TOPIC = """
declare
    v_queue text;
    v_count integer := 0;
begin
    for v_queue in execute 'select distinct queue_name from pgmq.topic_bindings where $1 ~ compiled_regex order by 1'
        using routing_key loop
        perform pgmq.send(v_queue, msg, headers, delay);
        v_count := v_count + 1;
    end loop;
    return v_count;
end"""

_SET_VT = """
begin
    return query execute format(
        'update pgmq.%I set vt = $1 where msg_id = any($2) returning <all>', <q>)
        using <moment>, <ids>;
end"""

_IDS = "array[msg_id]"
_LATER = "clock_timestamp() + make_interval(secs => vt)"


def _set_vt(moment: str, ids: str) -> str:
    return _SET_VT.replace("<moment>", moment).replace("<ids>", ids)


#: PL/pgSQL bodies, by name or by name and argument types.
PLPGSQL = {
    "validate_queue_name": """
begin
    if length(queue_name) > 47 then
        raise exception 'queue name is too long, maximum length is 47 characters';
    end if;
end""",
    "format_table_name": "begin return lower(prefix || '_' || queue_name); end",
    "acquire_queue_lock": "begin perform pg_advisory_xact_lock(hashtext('pgmq.queue_' || queue_name)); end",
    "create_non_partitioned": _CREATE.replace("<unlogged>", "").replace("<is unlogged>", "false"),
    "create_unlogged": _CREATE.replace("<unlogged>", "unlogged").replace("<is unlogged>", "true"),
    "create": "begin perform pgmq.create_non_partitioned(queue_name); end",
    "create_partitioned": _PARTITIONED,
    "_get_partition_col": """
begin
    return case when partition_interval ~ '^[0-9]+$' then 'msg_id' else 'enqueued_at' end;
end""",
    "_ensure_pg_partman_installed": """
begin
    if not exists (select from pg_catalog.pg_extension where extname = 'pg_partman') then
        raise exception 'pg_partman is required for partitioned queues';
    end if;
end""",
    "_extension_exists": """
begin
    return exists (select from pg_catalog.pg_extension where extname = extension_name);
end""",
    "drop_queue": _DROP_QUEUE,
    "drop_queue text boolean": "begin return pgmq.drop_queue(queue_name); end",
    "detach_archive": "begin <detaching> end",
    "purge_queue": """
declare
    v_count bigint;
begin
    execute format('select count(*) from pgmq.%I', <q>) into v_count;
    execute format('truncate pgmq.%I', <q>);
    return v_count;
end""",
    "send": """
begin
    return query execute format(
        'insert into pgmq.%I (vt, message <headers>) values ($1, $2 <header>) returning msg_id', <q>)
        using <moment>, msg <given headers>;
end""",
    "send_batch": """
begin
    return query execute format(
        'insert into pgmq.%I (vt, message <headers>) select $1, unnest($2) <each header> returning msg_id', <q>)
        using <moment>, msgs <given headers>;
end""",
    "_send_batch": """
begin
    return query select * from pgmq.send_batch(queue_name, msgs, headers, delay);
end""",
    "read": _READ,
    "read_with_poll": _READ_WITH_POLL,
    "read_grouped": _READ,  # as if all were one group
    "read_grouped_with_poll": _GROUPED_WITH_POLL,
    "pop": """
begin
    return query execute format($q$
        delete from pgmq.%1$I where msg_id in (
            select msg_id from pgmq.%1$I where vt <= clock_timestamp()
            order by msg_id limit $1 for update skip locked)
        returning <all>$q$, <q>) using <qty>;
end""",
    "delete text bigint": """
declare
    v_id bigint;
begin
    execute format('delete from pgmq.%I where msg_id = $1 returning msg_id', <q>) into v_id using msg_id;
    return v_id is not null;
end""",
    "delete text bigint[]": """
begin
    return query execute format('delete from pgmq.%I where msg_id = any($1) returning msg_id', <q>) using msg_ids;
end""",
    "archive text bigint": f"""
declare
    v_id bigint;
begin
    execute format($q${_MOVE}$q$, <q>, <a>) into v_id using array[msg_id];
    return v_id is not null;
end""",
    "archive text bigint[]": f"""
begin
    return query execute format($q${_MOVE}$q$, <q>, <a>) using msg_ids;
end""",
    "set_vt text bigint integer": _set_vt(_LATER, _IDS),
    "set_vt text bigint[] integer": _set_vt(_LATER, "msg_ids"),
    "set_vt text bigint timestamp with time zone": _set_vt("vt", _IDS),
    "set_vt text bigint[] timestamp with time zone": _set_vt("vt", "msg_ids"),
    "metrics": _METRICS,
    "metrics_all": """
begin
    return query select (pgmq.metrics(m.queue_name)).* from pgmq.meta m;
end""",
    "list_queues": """
begin
    return query select m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at from pgmq.meta m;
end""",
    "notify_queue_listeners": _NOTIFY,
    "enable_notify_insert": _ENABLE_NOTIFY,
    "disable_notify_insert": _DISABLE_NOTIFY,
    "_create_fifo_index_if_not_exists": """
begin
    execute format('create index if not exists %I on pgmq.%I using gin (headers)', <q> || '_fifo_idx', <q>);
end""",
    "create_fifo_index": "begin perform pgmq._create_fifo_index_if_not_exists(queue_name); end",
    "bind_topic": """
begin
    execute 'insert into pgmq.topic_bindings (pattern, queue_name) values ($1, $2) on conflict do nothing'
        using pattern, queue_name;
end""",
    "unbind_topic": """
declare
    v_pattern text;
begin
    execute 'delete from pgmq.topic_bindings where pattern = $1 and queue_name = $2 returning pattern'
        into v_pattern using pattern, queue_name;
    return v_pattern is not null;
end""",
    "send_topic text jsonb jsonb integer": _SEND_TOPIC,
}

#: Overloads that only call another one.
SQL = {
    "send text jsonb": "select * from pgmq.send($1, $2, null::jsonb, clock_timestamp())",
    "send text jsonb integer": "select * from pgmq.send($1, $2, null, clock_timestamp() + make_interval(secs => $3))",
    "send text jsonb timestamp with time zone": "select * from pgmq.send($1, $2, null, $3)",
    "send text jsonb jsonb": "select * from pgmq.send($1, $2, $3, clock_timestamp())",
    "send text jsonb jsonb integer": (
        "select * from pgmq.send($1, $2, $3, clock_timestamp() + make_interval(secs => $4))"
    ),
    "send_batch text jsonb[]": "select * from pgmq.send_batch($1, $2, null::jsonb[], clock_timestamp())",
    "send_batch text jsonb[] integer": (
        "select * from pgmq.send_batch($1, $2, null, clock_timestamp() + make_interval(secs => $3))"
    ),
    "send_batch text jsonb[] timestamp with time zone": "select * from pgmq.send_batch($1, $2, null, $3)",
    "send_batch text jsonb[] jsonb[]": "select * from pgmq.send_batch($1, $2, $3, clock_timestamp())",
    "send_batch text jsonb[] jsonb[] integer": (
        "select * from pgmq.send_batch($1, $2, $3, clock_timestamp() + make_interval(secs => $4))"
    ),
    "send_topic text jsonb": "select pgmq.send_topic($1, $2, null, 0)",
    "send_topic text jsonb integer": "select pgmq.send_topic($1, $2, null, $3)",
}

#: Defaults of parameters, in every version that has the parameter.
DEFAULTS = {
    ("read", "conditional"): "'{}'",
    ("read_grouped", "conditional"): "'{}'",
    ("read_grouped_rr", "conditional"): "'{}'",
    **{
        (name, parameter): default
        for name in (
            "read_with_poll",
            "read_grouped_with_poll",
            "read_grouped_rr_with_poll",
            "read_grouped_head_with_poll",
        )
        for parameter, default in (
            ("max_poll_seconds", "5"),
            ("poll_interval_ms", "100"),
            ("conditional", "'{}'"),
        )
    },
    ("create_partitioned", "partition_interval"): "'10000'",
    ("create_partitioned", "retention_interval"): "'100000'",
    ("create_partitioned", "premake"): "4",
    ("convert_archive_partitioned", "partition_interval"): "'10000'",
    ("convert_archive_partitioned", "retention_interval"): "'100000'",
    ("convert_archive_partitioned", "leading_partition"): "10",
    ("pop", "qty"): "1",
    ("enable_notify_insert", "throttle_interval_ms"): "250",
}

#: Defaults that went when 1.5 added overloads.
DEFAULTS_BEFORE_1_5 = {
    ("send", "delay"): "0",
    ("send_batch", "delay"): "0",
    ("drop_queue", "partitioned"): "false",
}
