-- Generated from sql/templates by tools/render.py: change those, not this file.
begin;
set local transaction_isolation = 'read committed';

-- The contents page: what an installation is, then its functions. Installs afresh, or renews an installation of the same
-- schema version; older ones go through `pgqueue upgrade`.
-- No notice of what is there already.
set local client_min_messages = warning;

-- One installer at a time; and never into a database where pgmq lives already.
do $$
begin
    perform pg_advisory_xact_lock(hashtext('pgqueue.install'));
    if exists (select from pg_catalog.pg_extension e where e.extname = 'pgmq') then
        raise exception using
            errcode = 'duplicate_object',
            message = format(
                'the extension pgmq %s is installed in this database',
                (select e.extversion from pg_catalog.pg_extension e where e.extname = 'pgmq')
            ),
            hint = 'Nothing was changed. To take it over in place, run: pgqueue adopt';
    end if;
    if to_regclass('pgqueue.migration') is null and (
        to_regclass('pgmq.meta') is not null
        or exists (
            select from pg_catalog.pg_proc p
            where p.pronamespace = (select n.oid from pg_catalog.pg_namespace n where n.nspname = 'pgmq')
        )
    ) then
        raise exception using
            errcode = 'duplicate_object',
            message = 'pgmq is installed in this database from SQL, without the extension',
            hint = 'Nothing was changed. To take it over in place, run: pgqueue adopt';
    end if;
    if to_regclass('pgqueue.migration') is not null then
        if (select coalesce(max(m.id), 0) from pgqueue.migration m) <> 1 then
            raise exception using
                errcode = 'object_not_in_prerequisite_state',
                message = 'this database holds another schema version of pgqueue than 1',
                hint = 'Nothing was changed. Run: pgqueue upgrade';
        end if;
    end if;
end
$$;

do $$
begin
    -- Not "if not exists", which wants the right to create schemas even where they are there.
    if not exists (select from pg_catalog.pg_namespace n where n.nspname = 'pgmq') then
        create schema pgmq;
    end if;
    if not exists (select from pg_catalog.pg_namespace n where n.nspname = 'pgqueue') then
        create schema pgqueue;
    end if;
    -- If someone else owns the schema and only granted CREATE, its comment is left alone.
    if (select pg_has_role(n.nspowner, 'usage') from pg_catalog.pg_namespace n where n.nspname = 'pgmq') then
        comment on schema pgmq is 'pgqueue: the interface of pgmq, without the extension';
    end if;
end
$$;
grant usage on schema pgqueue to public;
comment on schema pgqueue is 'pgqueue: what is ours; the compiled functions of each queue';

create table if not exists pgqueue.migration (
    id integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    checksum text not null,
    breaking boolean not null
);

-- What is set for a queue (its name in lower case); the row with the empty name holds the installation's defaults.
create table if not exists pgqueue.policy (
    queue_name text primary key,
    compiled boolean not null default true
);

-- How a partitioned table of a queue is cut: by what, in pieces of which size, how many ahead, and what is kept. Each row
-- belongs to the owner of that table, who alone may write it: _guard_rows sees to that.
create table if not exists pgqueue.partitioning (
    table_name text primary key,
    control text not null,
    span text not null,
    retention text not null,
    premake integer not null
);
grant select, insert, update, delete on pgqueue.partitioning to public;

-- The last tick of each periodic message, so that of several workers one sends it. A row belongs to those who may send to
-- its queue, who alone may write it: _guard_rows sees to that.
create table if not exists pgqueue.tick (
    queue_name text not null,
    name text not null,
    at timestamptz not null,
    primary key (queue_name, name)
);
grant select, insert, update, delete on pgqueue.tick to public;

create table if not exists pgmq.meta (
    queue_name varchar not null unique,
    is_partitioned boolean not null,
    is_unlogged boolean not null,
    created_at timestamptz not null default now()
);

-- Logged, where pgmq's is not: an unlogged one is empty after a crash, and listeners then hear nothing for good.
create table if not exists pgmq.notify_insert_throttle (
    queue_name varchar not null unique
    constraint notify_insert_throttle_meta_queue_name_fk references pgmq.meta (queue_name) on delete cascade,
    throttle_interval_ms integer not null default 0,
    last_notified_at timestamptz not null default to_timestamp(0)
);

create table if not exists pgmq.topic_bindings (
    pattern text not null,
    queue_name text not null
    constraint topic_bindings_meta_queue_name_fk references pgmq.meta (queue_name) on delete cascade,
    bound_at timestamptz not null default now(),
    -- The pattern as a regular expression: a star is one segment, a hash any text.
    compiled_regex text generated always as (
        '^'
        || replace(
            replace(regexp_replace(pattern, e'([.+?{}()|\\[\\]\\\\^$])', e'\\\\\\1', 'g'), '*', '[^.]+'),
            '#', '.*'
        )
        || '$'
    ) stored,
    constraint topic_bindings_unique_pattern_queue unique (pattern, queue_name)
);

do $$
begin
    if to_regtype('pgmq.message_record') is null then
        create type pgmq.message_record as (
            msg_id bigint,
            read_ct integer,
            enqueued_at timestamptz,
            last_read_at timestamptz,
            vt timestamptz,
            message jsonb,
            headers jsonb
        );
    end if;
    if to_regtype('pgmq.queue_record') is null then
        create type pgmq.queue_record as (
            queue_name varchar,
            is_partitioned boolean,
            is_unlogged boolean,
            created_at timestamptz
        );
    end if;
    if to_regtype('pgmq.metrics_result') is null then
        create type pgmq.metrics_result as (
            queue_name text,
            queue_length bigint,
            newest_msg_age_sec integer,
            oldest_msg_age_sec integer,
            total_messages bigint,
            scrape_time timestamptz,
            queue_visible_length bigint,
            default_partition_length bigint
        );
    end if;
end
$$;

-- What pgmq lets the monitoring role see, where there is that role and this one may grant.
do $$
begin
    if exists (select from pg_catalog.pg_roles r where r.rolname = 'pg_monitor') then
        grant usage on schema pgmq to pg_monitor;
        grant select on all tables in schema pgmq to pg_monitor;
        grant select on all sequences in schema pgmq to pg_monitor;
        alter default privileges in schema pgmq grant select on tables to pg_monitor;
        alter default privileges in schema pgmq grant select on sequences to pg_monitor;
    end if;
exception
    when insufficient_privilege then
        raise warning 'pg_monitor was given no rights on schema pgmq: %', sqlerrm;
end
$$;

-- Notes which functions of schema pgmq are there already: the grants below leave the rights on those alone.
do $$
begin
    perform set_config('pgqueue.known_functions', coalesce((
        select string_agg(p.oid::text, ',')
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'pgmq'
    ), ''), true);
end
$$;

-- The functions may name each other in any order.
set local check_function_bodies = off;

create or replace function pgqueue._archive(p_queue_name text, p_msg_ids bigint[])
returns setof bigint
language plpgsql volatile
set enable_seqscan = off
as $$
-- Generic form of archive, for queues without compiled functions; an unknown queue raises 42P01.
declare
    v_name text := pgqueue._existing_name(p_queue_name);
begin
    return query execute format($sql$
        with moved as (
            delete from pgmq.%1$I m
            where m.msg_id = any($1)
            returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
        )
        insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
        select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
        from moved
        returning msg_id
    $sql$, 'q_' || v_name, 'a_' || v_name)
    using p_msg_ids;
end
$$;

create or replace function pgqueue._check_archive(p_name text)
returns void
language plpgsql stable parallel safe
as $$
-- Refuses a new queue whose archive's name is taken by the old archive of another queue, which convert_archive_partitioned
-- named so. An archive that an earlier queue of its name left is reused.
declare
    v_other text := regexp_replace(p_name, '_old$', '');
begin
    if v_other <> p_name and pgqueue._relation_exists('a_' || p_name) and pgqueue._is_partitioned('a_' || v_other) then
        raise duplicate_table
            using message = format('pgmq.%I holds the old archive of queue "%s"', 'a_' || p_name, v_other);
    end if;
end
$$;

create or replace function pgqueue._check_batch(p_msgs jsonb[], p_headers jsonb[])
returns void
language plpgsql immutable parallel safe
as $$
begin
    if coalesce(cardinality(p_msgs), 0) = 0 then
        raise exception 'msgs cannot be NULL or empty';
    end if;
    if cardinality(p_headers) <> cardinality(p_msgs) then
        raise exception 'headers array length (%) must match msgs array length (%)',
            cardinality(p_headers), cardinality(p_msgs);
    end if;
end
$$;

create or replace function pgqueue._check_case_collision(p_queue_name text)
returns void
language plpgsql stable parallel safe
security definer
set search_path = pg_catalog, pg_temp
as $$
-- Two names that differ in case alone would share one table: the second is refused.
declare
    v_other text := pgqueue._registered(p_queue_name);
begin
    if v_other <> p_queue_name then
        raise duplicate_object using
            message = format('queue name "%s" collides with queue "%s"', p_queue_name, v_other),
            hint = 'Names that differ in case alone mean the same queue.';
    end if;
end
$$;

create or replace function pgqueue._check_characters(p_queue_name text)
returns void
language plpgsql immutable parallel safe
as $$
-- Refuses the characters that pgmq refuses, from every function.
begin
    if p_queue_name ~ '[$;'']|--' then
        raise exception e'queue name contains invalid characters: $, ;, --, or \\''';
    end if;
end
$$;

create or replace function pgqueue._check_name(p_queue_name text)
returns text
language plpgsql immutable parallel safe
as $$
-- The rule for the names of new queues. Gives the name in lower case, as it enters the names of tables.
begin
    if p_queue_name is null then
        raise null_value_not_allowed using message = 'queue name cannot be null';
    end if;
    if p_queue_name ~ e'^[ \\t\\n\\v\\f\\r]*$' then
        raise exception 'queue name cannot be empty or blank';
    end if;
    perform pgqueue._check_characters(p_queue_name);
    if length(p_queue_name) > 47 then
        raise exception 'queue name is too long, maximum length is 47 characters';
    end if;
    if octet_length(lower(p_queue_name)) > 61 then
        raise exception 'queue name is too long, maximum length is 61 bytes';
    end if;
    return lower(p_queue_name);
end
$$;

create or replace function pgqueue._check_partitioning(p_interval text, p_retention text, p_premake integer)
returns text
language plpgsql immutable parallel safe
as $$
-- Refuses what cannot be partitioned by. Gives what a queue is cut by: msg_id for a number, enqueued_at for a time.
declare
    v_span interval;
begin
    if p_premake < 1 then
        raise exception 'premake must be at least 1, got %', p_premake;
    end if;
    if p_interval is null or p_retention is null or p_premake is null then
        raise null_value_not_allowed using message = 'partition_interval, retention_interval and premake cannot be null';
    end if;
    if p_interval ~ '^[[:space:]]*[0-9]+[[:space:]]*$' then
        if p_interval::numeric not between 1 and 1000000000000 then
            raise invalid_parameter_value
                using message = format('partition_interval must be from 1 to 1000000000000 messages, got %s', p_interval);
        end if;
        if p_retention !~ '^[[:space:]]*[0-9]{1,18}[[:space:]]*$' then
            raise invalid_parameter_value using message = format(
                'retention_interval must be a number of messages, as partition_interval is, got "%s"', p_retention
            );
        end if;
        return 'msg_id';
    end if;
    v_span := pgqueue._span(p_interval);
    if v_span < interval '1 second' or pgqueue._span(p_retention) < interval '0' then
        raise invalid_parameter_value using message = format(
            'partitions must span at least a second, and be kept no negative time: got "%s" and "%s"',
            p_interval, p_retention
        );
    end if;
    if extract(year from v_span) * 12 + extract(month from v_span) > 0
        and v_span <> make_interval(months => (extract(year from v_span) * 12 + extract(month from v_span))::integer)
    then
        raise invalid_parameter_value
            using message = format('partition_interval must be of whole months, or have no months: got "%s"', p_interval);
    end if;
    return 'enqueued_at';
end
$$;

create or replace function pgqueue._check_rights(p_name text)
returns void
language plpgsql stable parallel safe
as $$
-- Raises unless this role owns the queue's table or may create in schema pgmq: those may have it compiled.
begin
    if not has_schema_privilege('pgmq', 'create') and not exists (
        select from pg_catalog.pg_class c
        where c.relnamespace = 'pgmq'::regnamespace
            and c.relname = 'q_' || p_name
            and pg_has_role(c.relowner, 'usage')
    ) then
        raise insufficient_privilege
            using message = format('permission denied for queue "%s"', p_name);
    end if;
end
$$;

create or replace function pgqueue._claim(p_queue_name text, p_vt integer, p_qty integer, p_pop boolean)
returns setof pgmq.message_record
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
-- Generic form of read and pop, for queues without compiled functions; an unknown queue raises 42P01. As the compiled
-- due, but without a floor.
declare
    v_name text := pgqueue._existing_name(p_queue_name);
    v_ts timestamptz := clock_timestamp();
    v_most bigint := 33 + p_qty::bigint;
    v_all boolean := false;
    v_due bigint[];
    v_found bigint;
begin
    loop
        execute format($sql$
            select array(
                select msg_id
                from pgmq.%1$I
                where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= $2 and vt <= $1 and ($4 or (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot()))))
                order by vt
                limit $3
            )
        $sql$, 'q_' || v_name)
        into v_due
        using v_ts, '-infinity'::timestamptz, v_most, v_all;
        if p_pop then
            return query execute format($sql$
                with claimed as (
                    delete from pgmq.%1$I
                    where msg_id = any(array(
                        select m.msg_id
                        from (
                            (
                                select msg_id as key, msg_id
                                from pgmq.%1$I
                                where isfinite(vt) and vt - enqueued_at < interval '1 second' and vt <= $1 and msg_id >= $3
                                order by key
                            )
                            union all
                            select key, msg_id from unnest(pgqueue._due_keys($4, $5), $4) as d (key, msg_id)
                            order by key
                        ) c
                        cross join lateral (
                            select msg_id
                            from pgmq.%1$I
                            where msg_id = c.msg_id and vt <= $1
                            for update skip locked
                        ) m
                        order by c.key
                        limit $2
                    ))
                    returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
                )
                select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
                from claimed
                order by msg_id
            $sql$, 'q_' || v_name)
            using v_ts, p_qty, -9223372036854775808, v_due, v_most;
        else
            return query execute format($sql$
                with claimed as (
                    update pgmq.%1$I
                    set vt = $6, read_ct = read_ct + 1, last_read_at = $1
                    where msg_id = any(array(
                        select m.msg_id
                        from (
                            (
                                select msg_id as key, msg_id
                                from pgmq.%1$I
                                where isfinite(vt) and vt - enqueued_at < interval '1 second' and vt <= $1 and msg_id >= $3
                                order by key
                            )
                            union all
                            select key, msg_id from unnest(pgqueue._due_keys($4, $5), $4) as d (key, msg_id)
                            order by key
                        ) c
                        cross join lateral (
                            select msg_id
                            from pgmq.%1$I
                            where msg_id = c.msg_id and vt <= $1
                            for update skip locked
                        ) m
                        order by c.key
                        limit $2
                    ))
                    returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
                )
                select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
                from claimed
                order by msg_id
            $sql$, 'q_' || v_name)
            using v_ts, p_qty, -9223372036854775808, v_due, v_most, v_ts + make_interval(secs => p_vt);
        end if;
        get diagnostics v_found = row_count;
        exit when v_found > 0 or p_qty = 0 or v_most is null;
        if cardinality(v_due) >= v_most then
            v_most := v_most * 8;
        else
            exit when v_all;
            v_all := true;
        end if;
    end loop;
end
$$;

create or replace function pgqueue._claim_grouped(p_queue_name text, p_vt integer, p_qty integer, p_way text)
returns setof pgmq.message_record
language plpgsql volatile
as $$
-- Generic form of grouped reads, for queues without our index over groups: looks at the whole queue; an unknown one raises
-- 42P01. p_way: head (one message a group), rr (in turns), batch (as many as possible of the earliest group). Only the heads
-- of the groups taken are locked: other readers skip those, and wait for none.
declare
    v_table text := 'q_' || pgqueue._existing_name(p_queue_name);
    v_ts timestamptz := clock_timestamp();
    v_heads bigint[];
    v_head bigint;
    v_locked bigint[];
    v_members bigint[];
    v_ids bigint[] := '{}';
begin
    if p_way = 'rr' and coalesce(p_qty, 0) < 1 then
        return;
    end if;
    execute format($sql$
        select array(
            select h.msg_id
            from (select min(m.msg_id) as msg_id from pgmq.%1$I m group by hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0)) h
            where (select m.vt from pgmq.%1$I m where m.msg_id = h.msg_id) <= $1
            order by h.msg_id
        )
    $sql$, v_table)
    into v_heads
    using v_ts;
    if p_way = 'batch' then
        foreach v_head in array v_heads loop
            exit when p_qty is null or cardinality(v_ids) = p_qty;
            execute format($sql$
                select array(
                    select m.msg_id
                    from (select i.msg_id from unnest($1) as i (msg_id) order by i.msg_id) c
                    cross join lateral (
                        select m.msg_id
                        from pgmq.%1$I m
                        where m.msg_id = c.msg_id and m.vt <= $2
                        for update skip locked
                    ) m
                    order by c.msg_id
                    limit $3
                )
            $sql$, v_table)
            into v_locked
            using array[v_head], v_ts, 1;
            continue when cardinality(v_locked) = 0;
            execute format($sql$
                select array(
                    select m.msg_id
                    from pgmq.%1$I m
                    where hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) = (select hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) from pgmq.%1$I m where m.msg_id = $1)
                        and (m.msg_id + 0) >= $1
                        and m.vt <= $2
                    order by (m.msg_id + 0)
                    limit $3
                )
            $sql$, v_table)
            into v_members
            using v_head, v_ts, p_qty - cardinality(v_ids);
            v_ids := v_ids || v_members;
        end loop;
        v_ids := array(select u.msg_id from unnest(v_ids) as u (msg_id) order by u.msg_id);
    else
        execute format($sql$
            select array(
                select m.msg_id
                from (select i.msg_id from unnest($1) as i (msg_id) order by i.msg_id) c
                cross join lateral (
                    select m.msg_id
                    from pgmq.%1$I m
                    where m.msg_id = c.msg_id and m.vt <= $2
                    for update skip locked
                ) m
                order by c.msg_id
                limit $3
            )
        $sql$, v_table)
        into v_ids
        using v_heads, v_ts, p_qty;
    end if;
    if p_way = 'rr' then
        execute format($sql$
            select array(
                with h as materialized (
                    select m.msg_id as head, hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) as hash
                    from pgmq.%1$I m
                    where m.msg_id = any($1)
                )
                select c.msg_id
                from (
                    select m.msg_id, h.head, row_number() over (partition by h.head order by m.msg_id) as rank
                    from h
                    join pgmq.%1$I m on hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) = h.hash and m.msg_id >= h.head
                    where m.vt <= $2
                ) c
                order by c.rank, c.head
                limit $3
            )
        $sql$, v_table)
        into v_ids
        using v_ids, v_ts, p_qty;
    end if;
    return query execute format($sql$
        with leased as (
            update pgmq.%1$I m
            set vt = $3, read_ct = m.read_ct + 1, last_read_at = $2
            where m.msg_id = any(array(select m.msg_id
                from (select i.msg_id from unnest($1) as i (msg_id) order by i.msg_id) c
                cross join lateral (
                    select m.msg_id
                    from pgmq.%1$I m
                    where m.msg_id = c.msg_id and m.vt <= $2
                    for update skip locked
                ) m
                order by c.msg_id
                limit null))
            returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
        )
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
        from leased m
        order by array_position($1, m.msg_id)
    $sql$, v_table)
    using v_ids, v_ts, v_ts + make_interval(secs => p_vt);
end
$$;

create or replace function pgqueue._compile(p_name text, p_force boolean)
returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set check_function_bodies = off
as $$
-- Makes the compiled functions of a queue, from the catalogue and the policies alone; those that are as they should be are
-- left alone unless p_force. Says whether the queue is compiled now. Bodies are not checked (check_function_bodies): that
-- would cost more than the rest, and a test checks them all. Functions are replaced, never dropped, under the queue's lock:
-- callers go on, compilers wait for each other.
declare
    v_name text := lower(p_name);
    v_text record;
    v_sql text;
    v_function text;
    v_walk regclass;
    v_by_id boolean := pgqueue._is_partitioned_by_id(v_name);
begin
    perform pgqueue._lock_queue(v_name);
    if strpos(v_name, '$') > 0 or octet_length(v_name) > 47 or not pgqueue._wants_compiling(v_name) then
        return false;
    end if;
    perform pgqueue._make_sequences(v_name, array['floor_id', 'floor_vt', 'walk']);
    v_walk := 'pgqueue.' || quote_ident(v_name || '$walk');
    if v_by_id and pg_sequence_last_value(v_walk) is null then
        -- Its readers keep to the partitions near the floor: it is in use from the first read on.
        perform setval(v_walk, 0);
    end if;
    for v_text in
        select t.suffix, t.body
        from pgqueue._compiled_texts(pgqueue._has_fifo_index(v_name), v_by_id) t
    loop
        v_sql := pgqueue._filled(v_text.body, v_name);
        v_function := 'pgqueue.' || quote_ident(v_name || '$' || v_text.suffix);
        if p_force or not exists (
            select from pg_proc p
            where p.oid = to_regproc(v_function) and p.prosrc = split_part(v_sql, '$body$', 2)
        ) then
            execute v_sql;
        end if;
        if not has_function_privilege('public', to_regproc(v_function)::oid, 'execute') then
            execute format('grant execute on function pgqueue.%I to public', v_name || '$' || v_text.suffix);
        end if;
    end loop;
    return true;
end
$$;

create or replace function pgqueue._compile_all()
returns bigint
language plpgsql volatile
as $$
-- Every queue anew, after the functions changed. For the installation's owner.
declare
    v_compiled bigint;
begin
    -- In the order of their names, as everybody who locks many queues: no deadlock.
    select count(*) filter (where pgqueue._compile(m.queue_name, true)) into v_compiled
    from (select n.queue_name from pgmq.meta n order by n.queue_name) m;
    perform pgqueue._write_direct_calls();
    return v_compiled;
end
$$;

create or replace function pgqueue._compile_as_owner(p_name text)
returns boolean
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    -- For create and its like, whoever calls them: compiled functions belong to the installation's owner. Open to all,
    -- as it can only bring a queue's functions to what they should be.
    select pgqueue._compile(p_name, false);
$$;

create or replace function pgqueue._compiled_texts(p_grouped boolean, p_by_id boolean)
returns table (suffix text, body text)
language sql immutable parallel safe
as $$
    -- The compiled functions of a queue as texts for format(), callees first. p_grouped: with those for groups; p_by_id: as
    -- they are where it is partitioned by id. The source is sql/templates/compiled.
    select t.suffix, t.body
    from (values
        ('send', false, null, $text$
create or replace function pgqueue.%3$I(
    msg jsonb, headers jsonb default null, delay timestamptz default null, out v_msg_id bigint
)
language plpgsql volatile parallel unsafe
as $body$
-- Sends one message, visible from delay on; null means now.
begin
    insert into pgmq.%1$I (vt, message, headers)
    values (coalesce(delay, now()), msg, headers)
    returning msg_id into v_msg_id;
end
$body$;
$text$),
        ('send_batch', false, null, $text$
create or replace function pgqueue.%4$I(
    msgs jsonb[], headers jsonb[] default null, delay timestamptz default null
)
returns setof bigint
language plpgsql volatile parallel unsafe
as $body$
-- Sends many messages, all visible from delay on; null means now. Gives their ids in the order of msgs.
begin
    perform pgqueue._check_batch(msgs, headers);
    return query
    insert into pgmq.%1$I (vt, message, headers)
    select coalesce(delay, now()), b.message, b.headers
    from unnest(msgs, headers) as b (message, headers)
    returning msg_id;
end
$body$;
$text$),
        ('floor', false, null, $text$
create or replace function pgqueue.%5$I(
    v_ts timestamptz, v_qty integer, out v_from bigint, out v_since timestamptz, out v_full boolean
)
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
-- Where live rows begin in the two indexes, so that reads need not walk dead rows while an old snapshot keeps them. Looked up
-- anew if it is this read's turn: once a second from the start (a full walk), else from the last floor on. Kept in sequences:
-- all sessions share them, and no rollback touches them. v_full: this was a full walk, or the floor is not in use. Shared work
-- is in _floor and _move_floor.
declare
    v_turn boolean;
    v_walk bigint;
    v_clean boolean;
begin
    select from_id, since, is_full, is_turn, walk, is_clean into v_from, v_since, v_full, v_turn, v_walk, v_clean
    from pgqueue._floor(%26$L, %23$L::regclass, %24$L::regclass, %25$L::regclass, v_ts, v_qty);
    if v_turn then
        select from_id, since into v_from, v_since
        from pgqueue._move_floor(
            %26$L,
            %23$L::regclass,
            %24$L::regclass,
            %25$L::regclass,
            v_ts,
            v_walk,
            v_clean,
            (
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second' and msg_id >= v_from
                order by msg_id
                limit 1
            ),
            (
                select vt
                from pgmq.%1$I
                where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= v_since and vt <= v_ts + interval '0.9 seconds'
                order by vt
                limit 1
            )
        );
    end if;
end
$body$;
$text$),
        ('lower_floor', false, null, $text$
create or replace function pgqueue.%6$I(v_msg_ids bigint[], v_vt timestamptz)
returns void
language plpgsql volatile parallel unsafe
as $body$
-- Lowers the floor to messages that set_vt made visible, or that were leased for no time, so that reads find them before the
-- next full walk: the floor of ready messages if v_vt makes them ready, and that of waiting ones.
declare
    v_msg_id bigint;
begin
    select min(m.msg_id) into v_msg_id
    from pgmq.%1$I m
    where m.msg_id = any(v_msg_ids) and isfinite(v_vt) and v_vt - m.enqueued_at < interval '1 second';
    if v_msg_id < pg_sequence_last_value(%23$L::regclass) then
        perform setval(%23$L::regclass, v_msg_id);
    end if;
    if v_vt < coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') then
        perform setval(%24$L::regclass, (case when v_vt > to_timestamp(0) then date_part('epoch', v_vt) * 1000000 - 1000 else 0 end)::bigint);
    end if;
end
$body$;
$text$),
        ('due', false, null, $text$
create or replace function pgqueue.%7$I(
    v_ts timestamptz, v_until timestamptz, v_qty integer, out v_ids bigint[]
)
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $body$
-- Locks the messages for a read for which ready ones may not be enough: it is its turn to move the floor, or leases have ended,
-- delays are over, or messages lie below the floor. Up to 32 + qty due ones are merged with the ready ones by id; if there are
-- more, the longest due come first (_due_keys). They are not rewritten for that. Before it finds nothing it has looked from the
-- start, and at what others may hold: what lies below the floor comes now, not in a second.
declare
    v_from bigint;
    v_since timestamptz;
    v_most bigint := 33 + v_qty::bigint;
    v_due bigint[];
    v_all boolean := false;
begin
    select f.v_from, f.v_since
    into v_from, v_since
    from pgqueue.%5$I(v_ts, v_qty) f;
    loop
        v_due := array(
            select msg_id
            from pgmq.%1$I
            where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= v_since and vt <= v_ts and (v_all or (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot()))))
            order by vt
            limit v_most
        );
        v_ids := array(
            select m.msg_id
            from (
                (
                    select msg_id as key, msg_id
                    from pgmq.%1$I
                    where isfinite(vt) and vt - enqueued_at < interval '1 second' and vt <= v_ts and msg_id >= v_from
                    order by key
                )
                union all
                select key, msg_id from unnest(pgqueue._due_keys(v_due, v_most), v_due) as d (key, msg_id)
                order by key
            ) c
            cross join lateral (
                select msg_id
                from pgmq.%1$I
                where msg_id = c.msg_id and vt <= v_ts
                for update skip locked
            ) m
            order by c.key
            limit v_qty
        );
        exit when v_ids <> '{}' or v_qty = 0;
        if cardinality(v_due) >= v_most then
            -- Others hold all of them.
            v_most := v_most * 8;
        elsif not v_all then
            v_from := -9223372036854775808;
            v_since := '-infinity';
            v_all := true;
        else
            exit;
        end if;
    end loop;
    if v_until <= v_ts and pg_sequence_last_value(%25$L::regclass) is not null then
        perform pgqueue.%6$I(v_ids, v_until);
    end if;
end
$body$;
$text$),
        ('read', false, false, $text$
create or replace function pgqueue.%8$I(vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
-- Leases up to qty visible messages for vt seconds, in rising order of their ids. (vt below is the column.)
declare
    v_ts timestamptz;
    v_from bigint;
    v_due bigint[];
begin
    select
        f.ts,
        case
            when not (((date_part('epoch', f.ts) * 1000000)::bigint & 255) < $2 or ((date_part('epoch', f.ts) * 1000000)::bigint - f.walk) / 1000000 <> 0) is true
                and $1 > 0
                and (f.since > f.ts or (
                    select vt
                    from pgmq.%1$I
                    where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= f.since and vt <= f.ts
                    order by vt
                    limit 1
                ) is null)
                then f.from_id
        end
    into v_ts, v_from
    from (
        select
            clock_timestamp() as ts,
            coalesce(pg_sequence_last_value(%23$L::regclass), -9223372036854775808) as from_id,
            coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') as since,
            pg_sequence_last_value(%25$L::regclass) as walk
    ) f;
    loop
        if $2 = 1 then
            return query
            update pgmq.%1$I
            set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
            where msg_id = any(coalesce(v_due, array(
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second'
                    and vt <= v_ts
                    and msg_id >= v_from
                    and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                order by msg_id
                limit $2
                for update skip locked
            )))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers;
        else
            return query
            with claimed as (
                update pgmq.%1$I
                set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
                where msg_id = any(coalesce(v_due, array(
                    select msg_id
                    from pgmq.%1$I
                    where isfinite(vt) and vt - enqueued_at < interval '1 second'
                        and vt <= v_ts
                        and msg_id >= v_from
                        and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                    order by msg_id
                    limit $2
                    for update skip locked
                )))
                returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            )
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from claimed
            order by msg_id;
        end if;
        exit when found or v_due is not null;
        v_due := pgqueue.%7$I(v_ts, v_ts + $1 * interval '1 second', $2);
        exit when v_due = '{}';
    end loop;
end
$body$;
$text$),
        ('read', false, true, $text$
create or replace function pgqueue.%8$I(vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
-- Leases up to qty visible messages for vt seconds, in rising order of their ids. (vt below is the column.)
declare
    v_ts timestamptz;
    v_from bigint;
    v_to bigint;
    v_rows bigint;
    v_count bigint := 0;
    v_left bigint;
    v_since timestamptz;
    v_due bigint[];
begin
    select
        f.ts,
        case
            when not (((date_part('epoch', f.ts) * 1000000)::bigint & 255) < $2 or ((date_part('epoch', f.ts) * 1000000)::bigint - f.walk) / 1000000 <> 0) is true
                and $1 > 0
                then f.from_id
        end,
        coalesce(
            case when f.from_id between 0 and 4611686018427387904 then f.from_id + 1000 + 4 * $2::bigint end,
            9223372036854775807
        ),
        f.since
    into v_ts, v_from, v_to, v_since
    from (
        select
            clock_timestamp() as ts,
            coalesce(pg_sequence_last_value(%23$L::regclass), -9223372036854775808) as from_id,
            coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') as since,
            pg_sequence_last_value(%25$L::regclass) as walk
    ) f
    left join pgmq.%1$I on false;
    if v_from is not null and v_since <= v_ts then
        v_from := case when (
            select vt
            from pgmq.%1$I
            where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= v_since and vt <= v_ts
            order by vt
            limit 1
        ) is null then v_from end;
    end if;
    loop
        v_left := $2 - v_count;
        return query
        with claimed as (
            update pgmq.%1$I
            set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
            where msg_id between v_from and v_to and msg_id = any(array(
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second'
                    and vt <= v_ts
                    and msg_id between v_from and v_to
                    and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                order by msg_id
                limit v_left
                for update skip locked
            ))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        from claimed
        order by msg_id;
        get diagnostics v_rows = row_count;
        v_count := v_count + v_rows;
        exit when v_count = 0 or v_rows = v_left or v_to >= pgqueue._last_id(%26$L);
        v_from := v_to + 1;
        v_to := 9223372036854775807;
    end loop;
    if v_count = 0 then
        v_due := pgqueue.%7$I(v_ts, v_ts + $1 * interval '1 second', $2);
        if v_due <> '{}' then
            select min(d.msg_id), max(d.msg_id) into v_from, v_to from unnest(v_due) as d (msg_id);
            return query
            with claimed as (
                update pgmq.%1$I
                set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
                where msg_id between v_from and v_to and msg_id = any(v_due)
                returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            )
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from claimed
            order by msg_id;
        end if;
    end if;
end
$body$;
$text$),
        ('fetch', false, false, $text$
create or replace function pgqueue.%9$I(
    vt integer,
    qty integer,
    done bigint[] default null,
    done_ct integer[] default null,
    archive boolean default false
)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
-- Deletes or archives the finished messages and leases the next: one call, one commit. With done_ct, the read_ct of each
-- of done, a message that has been delivered again meanwhile is left alone: it is its new reader's. (vt below is the column.)
declare
    v_ts timestamptz;
    v_from bigint;
    v_due bigint[];
begin
    if archive then
        perform from pgmq.%1$I where false;
    end if;
    if done_ct is null then
        if archive then
            with moved as (
                delete from pgmq.%1$I m
                where m.msg_id = any($3)
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
            )
            insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
            from moved;
        else
            delete from pgmq.%1$I m
            where m.msg_id = any($3);
        end if;
    elsif cardinality(done_ct) = cardinality(done) then
        if archive then
            with moved as (
                delete from pgmq.%1$I m
                where m.msg_id = any($3)
            and m.read_ct = ($4)[array_position($3, m.msg_id)]
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
            )
            insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
            from moved;
        else
            delete from pgmq.%1$I m
            where m.msg_id = any($3)
and m.read_ct = ($4)[array_position($3, m.msg_id)];
        end if;
    else
        raise invalid_parameter_value using message = 'done and done_ct must have the same length';
    end if;
    select
        f.ts,
        case
            when not (((date_part('epoch', f.ts) * 1000000)::bigint & 255) < $2 or ((date_part('epoch', f.ts) * 1000000)::bigint - f.walk) / 1000000 <> 0) is true
                and $1 > 0
                and (f.since > f.ts or (
                    select vt
                    from pgmq.%1$I
                    where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= f.since and vt <= f.ts
                    order by vt
                    limit 1
                ) is null)
                then f.from_id
        end
    into v_ts, v_from
    from (
        select
            clock_timestamp() as ts,
            coalesce(pg_sequence_last_value(%23$L::regclass), -9223372036854775808) as from_id,
            coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') as since,
            pg_sequence_last_value(%25$L::regclass) as walk
    ) f;
    loop
        if $2 = 1 then
            return query
            update pgmq.%1$I
            set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
            where msg_id = any(coalesce(v_due, array(
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second'
                    and vt <= v_ts
                    and msg_id >= v_from
                    and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                order by msg_id
                limit $2
                for update skip locked
            )))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers;
        else
            return query
            with claimed as (
                update pgmq.%1$I
                set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
                where msg_id = any(coalesce(v_due, array(
                    select msg_id
                    from pgmq.%1$I
                    where isfinite(vt) and vt - enqueued_at < interval '1 second'
                        and vt <= v_ts
                        and msg_id >= v_from
                        and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                    order by msg_id
                    limit $2
                    for update skip locked
                )))
                returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            )
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from claimed
            order by msg_id;
        end if;
        exit when found or v_due is not null;
        v_due := pgqueue.%7$I(v_ts, v_ts + $1 * interval '1 second', $2);
        exit when v_due = '{}';
    end loop;
end
$body$;
$text$),
        ('fetch', false, true, $text$
create or replace function pgqueue.%9$I(
    vt integer,
    qty integer,
    done bigint[] default null,
    done_ct integer[] default null,
    archive boolean default false
)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
-- Deletes or archives the finished messages and leases the next: one call, one commit. With done_ct, the read_ct of each
-- of done, a message that has been delivered again meanwhile is left alone: it is its new reader's. (vt below is the column.)
declare
    v_ts timestamptz;
    v_from bigint;
    v_to bigint;
    v_rows bigint;
    v_count bigint := 0;
    v_left bigint;
    v_since timestamptz;
    v_due bigint[];
begin
    if archive then
        perform from pgmq.%1$I where false;
    end if;
    if done_ct is null then
        if archive then
            with moved as (
                delete from pgmq.%1$I m
                where m.msg_id = any($3)
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
            )
            insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
            from moved;
        else
            delete from pgmq.%1$I m
            where m.msg_id = any($3);
        end if;
    elsif cardinality(done_ct) = cardinality(done) then
        if archive then
            with moved as (
                delete from pgmq.%1$I m
                where m.msg_id = any($3)
            and m.read_ct = ($4)[array_position($3, m.msg_id)]
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
            )
            insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
            from moved;
        else
            delete from pgmq.%1$I m
            where m.msg_id = any($3)
and m.read_ct = ($4)[array_position($3, m.msg_id)];
        end if;
    else
        raise invalid_parameter_value using message = 'done and done_ct must have the same length';
    end if;
    select
        f.ts,
        case
            when not (((date_part('epoch', f.ts) * 1000000)::bigint & 255) < $2 or ((date_part('epoch', f.ts) * 1000000)::bigint - f.walk) / 1000000 <> 0) is true
                and $1 > 0
                then f.from_id
        end,
        coalesce(
            case when f.from_id between 0 and 4611686018427387904 then f.from_id + 1000 + 4 * $2::bigint end,
            9223372036854775807
        ),
        f.since
    into v_ts, v_from, v_to, v_since
    from (
        select
            clock_timestamp() as ts,
            coalesce(pg_sequence_last_value(%23$L::regclass), -9223372036854775808) as from_id,
            coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') as since,
            pg_sequence_last_value(%25$L::regclass) as walk
    ) f
    left join pgmq.%1$I on false;
    if v_from is not null and v_since <= v_ts then
        v_from := case when (
            select vt
            from pgmq.%1$I
            where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= v_since and vt <= v_ts
            order by vt
            limit 1
        ) is null then v_from end;
    end if;
    loop
        v_left := $2 - v_count;
        return query
        with claimed as (
            update pgmq.%1$I
            set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
            where msg_id between v_from and v_to and msg_id = any(array(
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second'
                    and vt <= v_ts
                    and msg_id between v_from and v_to
                    and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                order by msg_id
                limit v_left
                for update skip locked
            ))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        from claimed
        order by msg_id;
        get diagnostics v_rows = row_count;
        v_count := v_count + v_rows;
        exit when v_count = 0 or v_rows = v_left or v_to >= pgqueue._last_id(%26$L);
        v_from := v_to + 1;
        v_to := 9223372036854775807;
    end loop;
    if v_count = 0 then
        v_due := pgqueue.%7$I(v_ts, v_ts + $1 * interval '1 second', $2);
        if v_due <> '{}' then
            select min(d.msg_id), max(d.msg_id) into v_from, v_to from unnest(v_due) as d (msg_id);
            return query
            with claimed as (
                update pgmq.%1$I
                set vt = v_ts + $1 * interval '1 second', read_ct = read_ct + 1, last_read_at = v_ts
                where msg_id between v_from and v_to and msg_id = any(v_due)
                returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            )
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from claimed
            order by msg_id;
        end if;
    end if;
end
$body$;
$text$),
        ('complete', false, null, $text$
create or replace function pgqueue.%10$I(msg_id bigint, read_ct integer, archive boolean default true)
returns void
language plpgsql volatile parallel unsafe
set enable_seqscan = off
as $body$
-- Archives or deletes a message for whoever holds its lease, the delivery number read_ct. A lost lease raises, and so rolls
-- back the caller's own work in the same transaction.
begin
    if archive then
        perform from pgmq.%1$I where false;
        with moved as (
            delete from pgmq.%1$I m
            where m.msg_id = $1 and m.read_ct = $2
            returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
        )
        insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
        select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
        from moved;
    else
        delete from pgmq.%1$I m
        where m.msg_id = $1 and m.read_ct = $2;
    end if;
    if not found then
        perform pgqueue._lost_lease($1, $2);
    end if;
end
$body$;
$text$),
        ('pop', false, false, $text$
create or replace function pgqueue.%11$I(qty integer default 1)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
-- Takes up to qty visible messages out of the queue, in rising order of their ids.
declare
    v_ts timestamptz;
    v_from bigint;
    v_due bigint[];
begin
    select
        f.ts,
        case
            when not (((date_part('epoch', f.ts) * 1000000)::bigint & 255) < $1 or ((date_part('epoch', f.ts) * 1000000)::bigint - f.walk) / 1000000 <> 0) is true
                and (f.since > f.ts or (
                    select vt
                    from pgmq.%1$I
                    where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= f.since and vt <= f.ts
                    order by vt
                    limit 1
                ) is null)
                then f.from_id
        end
    into v_ts, v_from
    from (
        select
            clock_timestamp() as ts,
            coalesce(pg_sequence_last_value(%23$L::regclass), -9223372036854775808) as from_id,
            coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') as since,
            pg_sequence_last_value(%25$L::regclass) as walk
    ) f;
    loop
        if $1 = 1 then
            return query
            delete from pgmq.%1$I
            where msg_id = any(coalesce(v_due, array(
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second'
                    and vt <= v_ts
                    and msg_id >= v_from
                    and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                order by msg_id
                limit $1
                for update skip locked
            )))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers;
        else
            return query
            with claimed as (
                delete from pgmq.%1$I
                where msg_id = any(coalesce(v_due, array(
                    select msg_id
                    from pgmq.%1$I
                    where isfinite(vt) and vt - enqueued_at < interval '1 second'
                        and vt <= v_ts
                        and msg_id >= v_from
                        and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                    order by msg_id
                    limit $1
                    for update skip locked
                )))
                returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            )
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from claimed
            order by msg_id;
        end if;
        exit when found or v_due is not null;
        v_due := pgqueue.%7$I(v_ts, null, $1);
        exit when v_due = '{}';
    end loop;
end
$body$;
$text$),
        ('pop', false, true, $text$
create or replace function pgqueue.%11$I(qty integer default 1)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
-- Takes up to qty visible messages out of the queue, in rising order of their ids.
declare
    v_ts timestamptz;
    v_from bigint;
    v_to bigint;
    v_rows bigint;
    v_count bigint := 0;
    v_left bigint;
    v_since timestamptz;
    v_due bigint[];
begin
    select
        f.ts,
        case
            when not (((date_part('epoch', f.ts) * 1000000)::bigint & 255) < $1 or ((date_part('epoch', f.ts) * 1000000)::bigint - f.walk) / 1000000 <> 0) is true
                then f.from_id
        end,
        coalesce(
            case when f.from_id between 0 and 4611686018427387904 then f.from_id + 1000 + 4 * $1::bigint end,
            9223372036854775807
        ),
        f.since
    into v_ts, v_from, v_to, v_since
    from (
        select
            clock_timestamp() as ts,
            coalesce(pg_sequence_last_value(%23$L::regclass), -9223372036854775808) as from_id,
            coalesce(to_timestamp(nullif(pg_sequence_last_value(%24$L::regclass), 0) / 1e6::float8), '-infinity') as since,
            pg_sequence_last_value(%25$L::regclass) as walk
    ) f
    left join pgmq.%1$I on false;
    if v_from is not null and v_since <= v_ts then
        v_from := case when (
            select vt
            from pgmq.%1$I
            where (not isfinite(vt) or vt - enqueued_at >= interval '1 second') and vt >= v_since and vt <= v_ts
            order by vt
            limit 1
        ) is null then v_from end;
    end if;
    loop
        v_left := $1 - v_count;
        return query
        with claimed as (
            delete from pgmq.%1$I
            where msg_id between v_from and v_to and msg_id = any(array(
                select msg_id
                from pgmq.%1$I
                where isfinite(vt) and vt - enqueued_at < interval '1 second'
                    and vt <= v_ts
                    and msg_id between v_from and v_to
                    and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
                order by msg_id
                limit v_left
                for update skip locked
            ))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        from claimed
        order by msg_id;
        get diagnostics v_rows = row_count;
        v_count := v_count + v_rows;
        exit when v_count = 0 or v_rows = v_left or v_to >= pgqueue._last_id(%26$L);
        v_from := v_to + 1;
        v_to := 9223372036854775807;
    end loop;
    if v_count = 0 then
        v_due := pgqueue.%7$I(v_ts, null, $1);
        if v_due <> '{}' then
            select min(d.msg_id), max(d.msg_id) into v_from, v_to from unnest(v_due) as d (msg_id);
            return query
            with claimed as (
                delete from pgmq.%1$I
                where msg_id between v_from and v_to and msg_id = any(v_due)
                returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            )
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from claimed
            order by msg_id;
        end if;
    end if;
end
$body$;
$text$),
        ('delete', false, null, $text$
create or replace function pgqueue.%12$I(msg_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
set enable_seqscan = off
as $body$
-- Deletes one message; says whether it was there.
begin
    delete from pgmq.%1$I m
    where m.msg_id = $1;
    return found;
end
$body$;
$text$),
        ('delete_batch', false, null, $text$
create or replace function pgqueue.%13$I(msg_ids bigint[])
returns setof bigint
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $body$
-- Deletes many messages; gives the ids of those that were there.
begin
    return query
    delete from pgmq.%1$I m
    where m.msg_id = any($1)
    returning m.msg_id;
end
$body$;
$text$),
        ('archive', false, null, $text$
create or replace function pgqueue.%14$I(msg_id bigint)
returns boolean
language plpgsql volatile parallel unsafe
set enable_seqscan = off
as $body$
-- Moves one message to the archive; says whether it was there.
begin
    perform from pgmq.%1$I where false;
    with moved as (
        delete from pgmq.%1$I m
        where m.msg_id = $1
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    )
    insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
    select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
    from moved;
    return found;
end
$body$;
$text$),
        ('archive_batch', false, null, $text$
create or replace function pgqueue.%15$I(msg_ids bigint[])
returns setof bigint
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $body$
-- Moves many messages to the archive; gives the ids of those that were there.
begin
    perform from pgmq.%1$I where false;
    return query
    with moved as (
        delete from pgmq.%1$I m
        where m.msg_id = any($1)
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    )
    insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
    select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
    from moved
    returning msg_id;
end
$body$;
$text$),
        ('set_vt', false, null, $text$
create or replace function pgqueue.%16$I(msg_id bigint, vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
as $body$
-- Makes one message visible at vt; gives it, or no row where it is not there.
begin
    return query
    update pgmq.%1$I m
    set vt = $2
    where m.msg_id = $1
    returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers;
    if found and $2 <= clock_timestamp() + interval '1 second' and pg_sequence_last_value(%25$L::regclass) is not null then
        perform pgqueue.%6$I(array[$1], $2);
    end if;
end
$body$;
$text$),
        ('set_vt_batch', false, null, $text$
create or replace function pgqueue.%17$I(msg_ids bigint[], vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $body$
-- Makes many messages visible at vt; gives those that were there.
begin
    return query
    update pgmq.%1$I m
    set vt = $2
    where m.msg_id = any($1)
    returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers;
    if found and $2 <= clock_timestamp() + interval '1 second' and pg_sequence_last_value(%25$L::regclass) is not null then
        perform pgqueue.%6$I($1, $2);
    end if;
end
$body$;
$text$),
        ('groups', true, null, $text$
create or replace function pgqueue.%18$I(v_ts timestamptz, v_first bigint, v_most integer)
returns bigint[]
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_hashagg = off
as $body$
-- The visible heads of up to v_most groups: a walk along the index over groups, from a hash on.
begin
    return array(
        with recursive w as (
            (
                select hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) as hash, m.msg_id, m.vt, 1 as place
                from pgmq.%1$I m
                where hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) >= v_first
                order by hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0), (m.msg_id + 0)
                limit 1
            )
            union all
            select n.hash, n.msg_id, n.vt, w.place + 1
            from w
            cross join lateral (
                select hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) as hash, m.msg_id, m.vt
                from pgmq.%1$I m
                where hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) > w.hash
                order by hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0), (m.msg_id + 0)
                limit 1
            ) n
            where w.place < v_most
        )
        select w.msg_id from w where w.vt <= v_ts
    );
end
$body$;
$text$),
        ('heads', true, null, $text$
create or replace function pgqueue.%19$I(
    v_ts timestamptz, v_qty integer, v_from bigint, v_since timestamptz, v_full boolean, v_taken bigint[]
)
returns bigint[]
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_hashagg = off
as $body$
-- Locks and gives the heads of up to v_qty free groups, but those of v_taken. First some 400 visible messages in the order of
-- their ids, each asked whether it is its group's head: ready ones, and the heads of the groups whose messages are longest due.
-- If those give too few, a walk along the index over groups: 700 of them from a random place, then from the start; with v_full
-- all, before it says that none is free. One call in 16 walks 300 of each first: so no group waits for ever behind groups that
-- have more due messages.
declare
    v_random bigint := hashtextextended(v_ts::text, 0);
    v_start bigint := -9223372036854775808;
    v_hashes bigint[];
    v_due bigint[];
    v_chunk bigint[];
    v_heads bigint[] := '{}';
    v_next bigint := v_start;
    v_seen integer := 0;
    v_size integer := 64;
    v_first bigint;
    v_most integer := 700;
    v_missing integer;
begin
    v_hashes := array(
        select hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0)
        from pgmq.%1$I m
        where (not isfinite(m.vt) or m.vt - m.enqueued_at >= interval '1 second') and m.vt >= v_since and m.vt <= v_ts and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
        order by m.vt
        limit 400
    );
    v_due := array(
        select m.msg_id
        from (select distinct h.hash from unnest(v_hashes) as h (hash)) g
        cross join lateral (
            select m.msg_id, m.vt, m.enqueued_at, m.xmax
            from pgmq.%1$I m
            where hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) = g.hash
            order by (m.msg_id + 0)
            limit 1
        ) m
        where (not isfinite(m.vt) or m.vt - m.enqueued_at >= interval '1 second') and m.vt <= v_ts and (xmax = 0 or pgqueue._may_be_free(xmax, (select pg_current_snapshot())))
    );
    if (date_part('epoch', v_ts) * 1000000)::bigint & 15 = 0 then
        v_due := array(
            select m.msg_id
            from (
                select distinct w.msg_id
                from unnest(v_due || pgqueue.%18$I(v_ts, v_random, 300) || pgqueue.%18$I(v_ts, v_start, 300)) as w (msg_id)
            ) w
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where m.msg_id = w.msg_id and (not isfinite(m.vt) or m.vt - m.enqueued_at >= interval '1 second')
            ) m
        );
    end if;
    loop
        v_chunk := array(
            select c.msg_id
            from (
                (
                    select m.msg_id
                    from pgmq.%1$I m
                    where isfinite(m.vt) and m.vt - m.enqueued_at < interval '1 second' and m.vt <= v_ts and m.msg_id >= greatest(v_from, v_next)
                    order by m.msg_id
                )
                union all
                (select d.msg_id from unnest(v_due) as d (msg_id) where d.msg_id >= v_next order by d.msg_id)
            ) c
            order by c.msg_id
            limit v_size
        );
        v_heads := v_heads || array(
            select m.msg_id
            from (select i.msg_id from unnest(v_chunk) as i (msg_id) order by i.msg_id) c
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where m.msg_id = c.msg_id
                    and m.vt <= v_ts
                    and m.msg_id <> all(v_taken)
                    and (
                        select e.msg_id
                        from pgmq.%1$I e
                        where hashtextextended(coalesce(e.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) = hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) and (e.msg_id + 0) < m.msg_id
                        limit 1
                    ) is null
                for update skip locked
            ) m
            order by c.msg_id
            limit v_qty - cardinality(v_heads)
        );
        v_seen := v_seen + cardinality(v_chunk);
        v_next := v_chunk[cardinality(v_chunk)];
        exit when cardinality(v_heads) >= v_qty or cardinality(v_chunk) < v_size or v_seen >= 400;
        exit when v_next = 9223372036854775807;
        v_next := v_next + 1;
        v_size := v_size * 2;
    end loop;
    if cardinality(v_heads) >= v_qty or cardinality(v_chunk) < v_size and cardinality(v_hashes) < 400 then
        return v_heads;
    end if;
    foreach v_first in array array[v_random, v_start] loop
        if v_full and v_first = v_start and v_heads = '{}' then
            v_most := 2147483647;
        end if;
        v_chunk := array(
            select c.msg_id
            from unnest(pgqueue.%18$I(v_ts, v_first, v_most)) as c (msg_id)
            where c.msg_id <> all(v_taken || v_heads)
        );
        v_missing := v_qty - cardinality(v_heads);
        v_heads := v_heads || array(
            select m.msg_id
            from (select i.msg_id from unnest(v_chunk) as i (msg_id) order by i.msg_id) c
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where m.msg_id = c.msg_id and m.vt <= v_ts
                for update skip locked
            ) m
            order by c.msg_id
            limit v_missing
        );
        exit when cardinality(v_heads) >= v_qty;
    end loop;
    return v_heads;
end
$body$;
$text$),
        ('read_grouped', true, null, $text$
create or replace function pgqueue.%20$I(vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_hashagg = off
as $body$
-- Leases up to qty visible messages, as many as possible of the earliest free group, then of the next. Heads are locked few
-- at a time, half as many as the size of the groups so far suggests: hardly a group is kept from other readers without need.
declare
    p_qty alias for $2;
    v_ts timestamptz := clock_timestamp();
    v_from bigint;
    v_since timestamptz;
    v_full boolean;
    v_until timestamptz := v_ts + $1 * interval '1 second';
    v_new bigint[];
    v_head bigint;
    v_heads bigint[] := '{}';
    v_ids bigint[] := '{}';
    v_missing integer;
begin
    perform from pgmq.%1$I where false;
    select f.v_from, f.v_since, f.v_full
    into v_from, v_since, v_full
    from pgqueue.%5$I(v_ts, p_qty) f;
    while cardinality(v_ids) < p_qty or p_qty < 0 loop
        v_missing := p_qty - cardinality(v_ids);
        v_new := pgqueue.%19$I(
            v_ts,
            greatest(1, v_missing::bigint * cardinality(v_heads) / greatest(1, 2 * cardinality(v_ids)))::integer,
            v_from,
            v_since,
            v_full,
            v_heads
        );
        if v_new = '{}' then
            exit when v_ids <> '{}' or not (v_from > -9223372036854775808 or v_since > '-infinity');
            v_from := -9223372036854775808;
            v_since := '-infinity';
            continue;
        end if;
        foreach v_head in array v_new loop
            v_missing := p_qty - cardinality(v_ids);
            v_ids := v_ids || array(
                select m.msg_id
                from pgmq.%1$I m
                where hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) = (select hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) from pgmq.%1$I m where m.msg_id = v_head)
                    and (m.msg_id + 0) >= v_head
                    and m.vt <= v_ts
                order by (m.msg_id + 0)
                limit v_missing
            );
            v_from := greatest(v_from, v_head);
        end loop;
        v_heads := v_heads || v_new;
    end loop;
    v_ids := array(select i.msg_id from unnest(v_ids) as i (msg_id) order by i.msg_id);
    return query
    with leased as (
        update pgmq.%1$I m
        set vt = v_until, read_ct = m.read_ct + 1, last_read_at = v_ts
        where m.msg_id = any(array(select m.msg_id
            from (select i.msg_id from unnest(v_ids) as i (msg_id) order by i.msg_id) c
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where m.msg_id = c.msg_id and m.vt <= v_ts
                for update skip locked
            ) m
            order by c.msg_id
            limit null))
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    )
    select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    from leased m
    order by array_position(v_ids, m.msg_id);
    if v_until <= v_ts and pg_sequence_last_value(%25$L::regclass) is not null then
        perform pgqueue.%6$I(v_ids, v_until);
    end if;
end
$body$;
$text$),
        ('read_grouped_rr', true, null, $text$
create or replace function pgqueue.%21$I(vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_hashagg = off
as $body$
-- Leases up to qty visible messages of free groups in turns: the first of each group, then the second of each ...
declare
    p_qty alias for $2;
    v_ts timestamptz := clock_timestamp();
    v_from bigint;
    v_since timestamptz;
    v_full boolean;
    v_until timestamptz := v_ts + $1 * interval '1 second';
    v_ids bigint[];
begin
    if p_qty < 1 then
        return;
    end if;
    perform from pgmq.%1$I where false;
    select f.v_from, f.v_since, f.v_full
    into v_from, v_since, v_full
    from pgqueue.%5$I(v_ts, p_qty) f;
    v_ids := pgqueue.%19$I(v_ts, p_qty, v_from, v_since, v_full, '{}');
    if v_ids = '{}' and (v_from > -9223372036854775808 or v_since > '-infinity') then
        v_ids := pgqueue.%19$I(v_ts, p_qty, -9223372036854775808, '-infinity', v_full, '{}');
    end if;
    v_ids := array(
        with h as materialized (
            select m.msg_id as head, hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) as hash
            from pgmq.%1$I m
            where m.msg_id = any(v_ids)
        )
        select c.msg_id
        from (
            select m.msg_id, h.head, row_number() over (partition by h.head order by m.msg_id) as rank
            from h
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where hashtextextended(coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group'), 0) = h.hash and (m.msg_id + 0) >= h.head and m.vt <= v_ts
                order by (m.msg_id + 0)
                limit p_qty
            ) m
        ) c
        order by c.rank, c.head
        limit p_qty
    );
    return query
    with leased as (
        update pgmq.%1$I m
        set vt = v_until, read_ct = m.read_ct + 1, last_read_at = v_ts
        where m.msg_id = any(array(select m.msg_id
            from (select i.msg_id from unnest(v_ids) as i (msg_id) order by i.msg_id) c
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where m.msg_id = c.msg_id and m.vt <= v_ts
                for update skip locked
            ) m
            order by c.msg_id
            limit null))
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    )
    select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    from leased m
    order by array_position(v_ids, m.msg_id);
    if v_until <= v_ts and pg_sequence_last_value(%25$L::regclass) is not null then
        perform pgqueue.%6$I(v_ids, v_until);
    end if;
end
$body$;
$text$),
        ('grouped_head', true, null, $text$
create or replace function pgqueue.%22$I(vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile parallel unsafe
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
set enable_hashagg = off
as $body$
-- Leases the heads of up to qty free groups.
declare
    p_qty alias for $2;
    v_ts timestamptz := clock_timestamp();
    v_from bigint;
    v_since timestamptz;
    v_full boolean;
    v_until timestamptz := v_ts + $1 * interval '1 second';
    v_ids bigint[];
begin
    perform from pgmq.%1$I where false;
    select f.v_from, f.v_since, f.v_full
    into v_from, v_since, v_full
    from pgqueue.%5$I(v_ts, p_qty) f;
    v_ids := pgqueue.%19$I(v_ts, p_qty, v_from, v_since, v_full, '{}');
    if v_ids = '{}' and (v_from > -9223372036854775808 or v_since > '-infinity') then
        v_ids := pgqueue.%19$I(v_ts, p_qty, -9223372036854775808, '-infinity', v_full, '{}');
    end if;
    v_ids := array(select h.msg_id from unnest(v_ids) as h (msg_id) order by h.msg_id);
    return query
    with leased as (
        update pgmq.%1$I m
        set vt = v_until, read_ct = m.read_ct + 1, last_read_at = v_ts
        where m.msg_id = any(array(select m.msg_id
            from (select i.msg_id from unnest(v_ids) as i (msg_id) order by i.msg_id) c
            cross join lateral (
                select m.msg_id
                from pgmq.%1$I m
                where m.msg_id = c.msg_id and m.vt <= v_ts
                for update skip locked
            ) m
            order by c.msg_id
            limit null))
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    )
    select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    from leased m
    order by array_position(v_ids, m.msg_id);
    if v_until <= v_ts and pg_sequence_last_value(%25$L::regclass) is not null then
        perform pgqueue.%6$I(v_ids, v_until);
    end if;
end
$body$;
$text$)
    ) as t (suffix, grouped, by_id, body)
    where (p_grouped or not t.grouped) and coalesce(t.by_id = p_by_id, true);
$$;

create or replace function pgqueue._create(p_queue_name text, p_unlogged boolean)
returns void
language plpgsql volatile
as $$
-- Makes a queue, or what is missing of one that is there; where nothing is missing, that is no error.
declare
    v_name text := pgqueue._check_name(p_queue_name);
begin
    perform pgqueue._lock_queue(v_name);
    perform pgqueue._check_case_collision(p_queue_name);
    if not pgqueue._has_table('q_', v_name) then
        perform pgqueue._check_archive(v_name);
        if p_unlogged then
            execute format($ddl$
                create unlogged table pgmq.%1$I (
                    msg_id bigint generated always as identity primary key,
                    read_ct integer not null default 0,
                    enqueued_at timestamptz not null default now(),
                    last_read_at timestamptz,
                    vt timestamptz not null,
                    message jsonb,
                    headers jsonb
                )
            $ddl$, 'q_' || v_name);
        else
            execute format($ddl$
                create table pgmq.%1$I (
                    msg_id bigint generated always as identity primary key,
                    read_ct integer not null default 0,
                    enqueued_at timestamptz not null default now(),
                    last_read_at timestamptz,
                    vt timestamptz not null,
                    message jsonb,
                    headers jsonb
                )
            $ddl$, 'q_' || v_name);
        end if;
        if pgqueue._has_table('a_', v_name) then
            -- Ids go on after those that an earlier queue of the name left in its archive.
            execute format(
                'select setval(pg_get_serial_sequence(%L, ''msg_id''), max(msg_id)) from pgmq.%I having max(msg_id) > 0',
                format('pgmq.%I', 'q_' || v_name),
                'a_' || v_name
            );
        end if;
    end if;
    if not pgqueue._has_table('a_', v_name) then
        execute format($ddl$
            create table pgmq.%2$I (
                msg_id bigint primary key,
                read_ct integer not null default 0,
                enqueued_at timestamptz not null default now(),
                last_read_at timestamptz,
                archived_at timestamptz not null default now(),
                vt timestamptz not null,
                message jsonb,
                headers jsonb
            )
        $ddl$, 'q_' || v_name, 'a_' || v_name);
    end if;
    perform pgqueue._make_indexes(v_name);
    perform pgqueue._register(p_queue_name);
end
$$;

create or replace function pgqueue._default_partition(p_table text)
returns regclass
language sql stable parallel safe
as $$
    -- The partition of a queue's table that takes what fits no other; null for a table that has none.
    select p.partdefid::regclass
    from pg_catalog.pg_partitioned_table p
    join pg_catalog.pg_class c on c.oid = p.partrelid
    where c.relnamespace = 'pgmq'::regnamespace and c.relname = p_table and p.partdefid <> 0;
$$;

create or replace function pgqueue._delete(p_queue_name text, p_msg_ids bigint[])
returns setof bigint
language plpgsql volatile
set enable_seqscan = off
as $$
-- Generic form of delete, for queues without compiled functions; an unknown queue raises 42P01.
begin
    return query execute format($sql$
        delete from pgmq.%1$I m
        where m.msg_id = any($1)
        returning m.msg_id
    $sql$, 'q_' || pgqueue._existing_name(p_queue_name))
    using p_msg_ids;
end
$$;

create or replace function pgqueue._deliver(
    p_routing_key text, p_msgs jsonb[], p_headers jsonb[], p_delay timestamptz
)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
as $$
-- Sends messages to every queue bound to the key, once each, in the order of their names; all or none.
declare
    v_queue_name text;
begin
    for v_queue_name in
        select distinct b.queue_name
        from pgmq.topic_bindings b
        where p_routing_key ~ b.compiled_regex
        order by b.queue_name
    loop
        return query
        select v_queue_name, s.msg_id
        from pgmq.send_batch(v_queue_name, p_msgs, p_headers, p_delay) as s (msg_id);
    end loop;
end
$$;

create or replace function pgqueue._direct_calls(p_names text[], p_first integer, p_indent text)
returns text
language plpgsql immutable parallel safe
as $$
-- Builds a binary decision tree over v_place; each leaf is a line @name, replaced later by the call. p_first: the v_place of
-- the first name.
declare
    v_half integer := cardinality(p_names) / 2;
begin
    return case v_half
        when 0 then p_indent || '@' || p_names[1] || chr(10)
        else concat(
            p_indent, format('if v_place < %s then', p_first + v_half), chr(10),
            pgqueue._direct_calls(p_names[:v_half], p_first, p_indent || '    '),
            p_indent, 'else', chr(10),
            pgqueue._direct_calls(p_names[v_half + 1:], p_first + v_half, p_indent || '    '),
            p_indent, 'end if;', chr(10)
        )
    end;
end
$$;

create or replace function pgqueue._drop(p_queue_name text, p_keep_archive boolean)
returns boolean
language plpgsql volatile
as $$
-- Drops a queue, and its archive unless that is kept; says whether there was one. Tables first: it waits for whoever uses them.
declare
    v_name text := lower(p_queue_name);
    v_tables text[];
    v_table text;
begin
    if p_queue_name is null then
        raise null_value_not_allowed using message = 'queue name cannot be null';
    end if;
    perform pgqueue._check_characters(p_queue_name);
    perform pgqueue._lock_queue(v_name);
    v_tables := array(
        select c.relname
        from pg_catalog.pg_class c
        where c.relnamespace = 'pgmq'::regnamespace
            and (c.relname = 'q_' || v_name or c.relname = 'a_' || v_name and not p_keep_archive)
            and c.relkind in ('r', 'p')
        order by c.relname desc
    );
    -- An archive alone is no queue: it is one that was kept.
    if 'q_' || v_name <> all(v_tables) and not exists (select from pgmq.meta m where lower(m.queue_name) = v_name) then
        return false;
    end if;
    perform pgqueue._fire_triggers(v_name);
    perform pgqueue._leave_partman(v_tables);
    foreach v_table in array v_tables loop
        execute format('drop table pgmq.%I', v_table);
    end loop;
    delete from pgmq.meta m where lower(m.queue_name) = v_name;
    perform pgqueue._forget(v_name);
    return true;
end
$$;

create or replace function pgqueue._drop_expired(p_table text)
returns integer
language plpgsql volatile
as $$
-- Drops partitions that ended before what is kept, with all that is in them, as in pgmq. Says how many.
declare
    v_cut record;
    v_newest text := pgqueue._newest_value(p_table);
    v_oldest_kept text;
    v_name text;
    v_dropped integer := 0;
begin
    select p.control, p.retention into strict v_cut from pgqueue.partitioning p where p.table_name = p_table;
    if v_cut.control = 'msg_id' then
        v_oldest_kept := greatest(v_newest::bigint - v_cut.retention::bigint, 0)::text;
    else
        v_oldest_kept := (v_newest::timestamptz - pgqueue._span(v_cut.retention))::text;
    end if;
    -- The partition that holds the oldest value kept stays, and so do later ones: the numbers in their names rise with their
    -- bounds.
    for v_name in
        select c.relname::text
        from pg_catalog.pg_inherits i
        join pg_catalog.pg_class c on c.oid = i.inhrelid
        cross join pgqueue._partition_bounds(p_table, v_oldest_kept, 0) b
        where i.inhparent = format('pgmq.%I', p_table)::regclass
            and substring(c.relname from '[$]p([0-9]+)$')::numeric < substr(b.suffix, 3)::numeric
    loop
        execute format('drop table pgmq.%I', v_name);
        v_dropped := v_dropped + 1;
    end loop;
    return v_dropped;
end
$$;

create or replace function pgqueue._drop_notify_trigger(p_name text)
returns void
language plpgsql volatile
as $$
begin
    if exists (
        select from pg_catalog.pg_trigger t
        where t.tgrelid = format('pgmq.%I', 'q_' || p_name)::regclass
            and t.tgname = 'trigger_notify_queue_insert_listeners'
    ) then
        -- The table before its partitions, as senders and readers go: the drop would begin with those.
        execute format('lock table pgmq.%I in access exclusive mode', 'q_' || p_name);
        perform pgqueue._fire_triggers(p_name);
        execute format('drop trigger trigger_notify_queue_insert_listeners on pgmq.%I', 'q_' || p_name);
    end if;
end
$$;

create or replace function pgqueue._due_keys(p_due bigint[], p_most bigint)
returns bigint[]
language plpgsql immutable parallel safe
as $$
-- The keys by which due messages are merged with ready ones: their ids, so that the order is that of ids, as long as the list
-- is complete. If there are more, the longest overdue come first, whatever their ids: else high ids would stay at the front
-- of the index, and each read would walk all that died behind them.
begin
    if cardinality(p_due) < p_most then
        return p_due;
    end if;
    return array(
        select max(d.msg_id) over (order by d.place)
        from unnest(p_due) with ordinality as d (msg_id, place)
        order by d.place
    );
end
$$;

create or replace function pgqueue._estimated_rows(p_relation regclass)
returns bigint
language sql stable parallel safe
as $$
    -- Rows as the planner estimates them, by the density last seen and the size now; of a partitioned table, of all leaves.
    select coalesce(sum(
        case
            when c.reltuples > 0 and c.relpages > 0
            then c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::integer)
            else greatest(c.reltuples, 0)
        end
    ), 0)::bigint
    from pg_catalog.pg_class c
    where c.oid in (select t.relid from pg_catalog.pg_partition_tree(p_relation) t where t.isleaf)
        or c.oid = p_relation and c.relkind in ('r', 'i');
$$;

create or replace function pgqueue._existing_name(p_queue_name text)
returns text
language plpgsql stable parallel safe
as $$
-- Lower-cased name of an existing queue, or 42P01. Only tables count. Waits for a concurrent drop (pg_relation_is_updatable
-- does).
declare
    v_name text := lower(p_queue_name);
begin
    if p_queue_name is null then
        raise null_value_not_allowed using message = 'queue name cannot be null';
    end if;
    perform pgqueue._check_characters(p_queue_name);
    if octet_length(v_name) > 61 or not exists (
        select from pg_catalog.pg_class c
        where c.oid = to_regclass(format('pgmq.%I', 'q_' || v_name)) and c.relkind in ('r', 'p')
            and pg_relation_is_updatable(c.oid, false) > 0
    ) then
        -- The detail in pgmq's words: clients look for them.
        raise undefined_table using
            message = format('queue "%s" does not exist', p_queue_name),
            detail = format('relation "pgmq.q_%s" does not exist', v_name);
    end if;
    return v_name;
end
$$;

create or replace function pgqueue._filled(p_text text, p_name text)
returns text
language plpgsql immutable parallel safe
as $$
-- A text of the templates with the names of one queue put in: one pass of format(), so a name cannot become a marker.
declare
    v_name text := p_name;
begin
    return format(p_text, 'q_' || v_name, 'a_' || v_name, v_name || '$send', v_name || '$send_batch', v_name || '$floor', v_name || '$lower_floor', v_name || '$due', v_name || '$read', v_name || '$fetch', v_name || '$complete', v_name || '$pop', v_name || '$delete', v_name || '$delete_batch', v_name || '$archive', v_name || '$archive_batch', v_name || '$set_vt', v_name || '$set_vt_batch', v_name || '$groups', v_name || '$heads', v_name || '$read_grouped', v_name || '$read_grouped_rr', v_name || '$grouped_head', 'pgqueue.' || quote_ident(v_name || '$floor_id'), 'pgqueue.' || quote_ident(v_name || '$floor_vt'), 'pgqueue.' || quote_ident(v_name || '$walk'), 'pgmq.' || quote_ident('q_' || v_name), pgqueue._object_name('q_', v_name, '_ready_idx'), pgqueue._object_name('q_', v_name, '_waiting_idx'), pgqueue._object_name('q_', v_name, '_fifo_idx'), pgqueue._object_name('q_', v_name, '_msg_id_idx'), pgqueue._object_name('archived_at_idx_', v_name, ''));
end
$$;

create or replace function pgqueue._finish(
    p_queue_name text, p_msg_ids bigint[], p_read_cts integer[], p_archive boolean
)
returns bigint
language plpgsql volatile
set enable_seqscan = off
as $$
-- The acknowledging half of fetch and complete for a queue that is not compiled; says how many leases still stood.
declare
    v_name text := pgqueue._existing_name(p_queue_name);
    v_finished bigint;
begin
    if p_read_cts is null then
        if p_archive then
            return (select count(*) from pgqueue._archive(p_queue_name, p_msg_ids));
        end if;
        return (select count(*) from pgqueue._delete(p_queue_name, p_msg_ids));
    end if;
    if cardinality(p_read_cts) is distinct from cardinality(p_msg_ids) then
        raise invalid_parameter_value using message = 'done and done_ct must have the same length';
    end if;
    if p_archive then
        execute format($sql$
            with moved as (
                delete from pgmq.%1$I m
                where m.msg_id = any($1)
            and m.read_ct = ($2)[array_position($1, m.msg_id)]
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
            )
            insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
            from moved
        $sql$, 'q_' || v_name, 'a_' || v_name)
        using p_msg_ids, p_read_cts;
    else
        execute format($sql$
            delete from pgmq.%1$I m
            where m.msg_id = any($1)
and m.read_ct = ($2)[array_position($1, m.msg_id)]
        $sql$, 'q_' || v_name)
        using p_msg_ids, p_read_cts;
    end if;
    get diagnostics v_finished = row_count;
    return v_finished;
end
$$;

create or replace function pgqueue._fire_triggers(p_name text)
returns void
language plpgsql volatile
as $$
-- Fires the notify triggers of messages that this transaction has sent (what they notify still goes out at commit): while
-- triggers are pending, Postgres refuses to drop, truncate or alter the table.
begin
    if exists (
        select from pg_catalog.pg_constraint c
        where c.conrelid = to_regclass('pgmq.' || quote_ident('q_' || p_name))
            and c.conname = 'trigger_notify_queue_insert_listeners'
            and c.condeferred
    ) then
        set constraints pgmq.trigger_notify_queue_insert_listeners immediate;
        set constraints pgmq.trigger_notify_queue_insert_listeners deferred;
    end if;
end
$$;

create or replace function pgqueue._floor(
    p_relation regclass,
    p_floor_id regclass,
    p_floor_vt regclass,
    p_walk regclass,
    p_ts timestamptz,
    p_qty integer,
    out from_id bigint,
    out since timestamptz,
    out is_full boolean,
    out is_turn boolean,
    out walk bigint,
    out is_clean boolean
)
language plpgsql volatile
as $$
-- The floor of a queue as its sequences have it, and whether it is this read's turn to look it up anew. is_full: the look is a
-- full walk, from the start, once a second; who takes it sets the sequence walk, so that no other does, and gets that value as
-- walk. Where the floor is not in use walk is null, and is_full is true. is_clean: the transaction has not written; asked
-- here, since moving a sequence is writing too.
begin
    is_clean := pg_current_xact_id_if_assigned() is null;
    walk := pg_sequence_last_value(p_walk);
    is_turn := (((date_part('epoch', p_ts) * 1000000)::bigint & 255) < p_qty or ((date_part('epoch', p_ts) * 1000000)::bigint - walk) / 1000000 <> 0) is true;
    is_full := walk is null or is_turn and ((date_part('epoch', p_ts) * 1000000)::bigint - walk) / 1000000 <> 0;
    if current_setting('transaction_isolation') <> 'read committed' or row_security_active(p_relation) then
        -- Its snapshot may be old, or row security may hide rows from it: it neither moves the floor nor claims the walk.
        is_turn := false;
    elsif is_full and walk is not null then
        walk := setval(p_walk, (date_part('epoch', p_ts) * 1000000)::bigint);
    end if;
    if is_full then
        from_id := -9223372036854775808;
        since := '-infinity';
    else
        from_id := coalesce(pg_sequence_last_value(p_floor_id), -9223372036854775808);
        since := coalesce(to_timestamp(nullif(pg_sequence_last_value(p_floor_vt), 0) / 1e6::float8), '-infinity');
    end if;
end
$$;

create or replace function pgqueue._forget(p_name text)
returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
-- Drops what is left in schema pgqueue of a queue whose table is gone. Open to all: it leaves real queues alone, and
-- the policy without a name, which is the installation's.
declare
    v_object record;
begin
    if p_name = '' or exists (
        select from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relname = 'q_' || p_name
    ) then
        return;
    end if;
    for v_object in
        select p.proname as name, 'drop function pgqueue.%I' as command
        from pg_proc p
        where p.pronamespace = 'pgqueue'::regnamespace
            and p.proname in (select p_name || '$' || t.suffix from pgqueue._compiled_texts(true, false) t)
        union all
        select c.relname, 'drop sequence pgqueue.%I'
        from pg_class c
        where c.relnamespace = 'pgqueue'::regnamespace
            and c.relname in (
                p_name || '$floor_id', p_name || '$floor_vt', p_name || '$walk', p_name || '$notified'
            )
    loop
        execute format(v_object.command, v_object.name);
    end loop;
    delete from pgqueue.policy p where p.queue_name = p_name;
    delete from pgqueue.tick t where t.queue_name = p_name;
    delete from pgqueue.partitioning p
    where p.table_name in ('q_' || p_name, 'a_' || p_name)
        and not exists (
            select from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relname = p.table_name
        );
end
$$;

create or replace function pgqueue._guard_rows()
returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
-- All may write pgqueue.partitioning and pgqueue.tick, but each role its own rows only: an update or delete skips the rows of
-- others, and making such a row raises. Not by row security: pg_dump refuses to run as a role that is subject to it.
declare
    v_old text := coalesce(to_jsonb(old) ->> 'table_name', 'q_' || (to_jsonb(old) ->> 'queue_name'));
    v_new text := coalesce(to_jsonb(new) ->> 'table_name', 'q_' || (to_jsonb(new) ->> 'queue_name'));
    v_own text[];
begin
    if pg_has_role((select c.relowner from pg_class c where c.oid = tg_relid), 'usage') then
        return coalesce(new, old);
    end if;
    v_own := array(
        select c.relname
        from pg_class c
        where c.relnamespace = 'pgmq'::regnamespace
            and c.relname in (v_old, v_new)
            and case tg_table_name
                when 'tick' then has_table_privilege(c.oid, 'insert')
                else pg_has_role(c.relowner, 'usage')
            end
    );
    if tg_op <> 'INSERT' and v_old <> all(v_own) then
        return null;
    end if;
    if tg_op <> 'DELETE' and v_new <> all(v_own) then
        raise insufficient_privilege using message = format('permission denied for %s in pgqueue.%s', v_new, tg_table_name);
    end if;
    return coalesce(new, old);
end
$$;

create or replace function pgqueue._has_fifo_index(p_name text)
returns boolean
language sql stable parallel safe
as $$
    -- Whether the queue has our index over groups; pgmq's own, a GIN over all headers, serves no grouped read.
    select exists (
        select
        from pg_catalog.pg_index i
        join pg_catalog.pg_class c on c.oid = i.indexrelid
        join pg_catalog.pg_am a on a.oid = c.relam
        where c.relnamespace = 'pgmq'::regnamespace
            and c.relname = pgqueue._object_name('q_', p_name, '_fifo_idx')
            and i.indisvalid
            and a.amname = 'btree'
    );
$$;

create or replace function pgqueue._has_index(p_index text, p_table text)
returns boolean
language plpgsql stable parallel safe
as $$
-- Whether a table has that index of ours; raises where something else has its name, as the table of a queue may.
declare
    v_class record;
begin
    select i.indrelid into v_class
    from pg_catalog.pg_class c
    left join pg_catalog.pg_index i on i.indexrelid = c.oid
    where c.relnamespace = 'pgmq'::regnamespace and c.relname = p_index;
    if not found then
        return false;
    end if;
    if v_class.indrelid is distinct from format('pgmq.%I', p_table)::regclass then
        raise duplicate_table
            using message = format('pgmq.%I is there already, and is no index of pgmq.%I', p_index, p_table);
    end if;
    return true;
end
$$;

create or replace function pgqueue._has_table(p_prefix text, p_name text)
returns boolean
language plpgsql stable parallel safe
as $$
-- Whether that table of a queue is there; raises where something else has its name. Asks the catalogue itself: a cache could
-- hold what was true before the queue's lock was waited for.
declare
    v_class record;
begin
    select c.oid, c.relkind into v_class
    from pg_catalog.pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relname = p_prefix || p_name;
    if not found then
        return false;
    end if;
    if v_class.relkind not in ('r', 'p') then
        raise wrong_object_type
            using message = format('pgmq.%I is no table, so there can be no queue "%s"', p_prefix || p_name, p_name);
    end if;
    if p_prefix = 'q_' and not exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = v_class.oid and a.attname = 'msg_id' and a.attidentity <> ''
    ) then
        raise wrong_object_type
            using message = format('pgmq.%I hands out no msg_id, so there can be no queue "%s"', 'q_' || p_name, p_name);
    end if;
    return true;
end
$$;

create or replace function pgqueue._identify_rows()
returns void
language plpgsql volatile
set lock_timeout = '300ms'
as $$
-- Gives pgmq's own tables, which have no primary keys, a replica identity. Without one, no row of a table that a publication
-- holds may be changed (one for all tables holds them), and every send to a queue that notifies would fail. What somebody has
-- chosen for a table stays. For the installation's owner, as the last step: the lock is the strongest there is.
declare
    v_table name;
    v_key name;
begin
    for v_table, v_key in
        select c.relname, x.relname
        from pg_catalog.pg_index i
        join pg_catalog.pg_class c on c.oid = i.indrelid
        join pg_catalog.pg_class x on x.oid = i.indexrelid
        where c.relnamespace = 'pgmq'::regnamespace
            and x.relname in (
                'meta_queue_name_key', 'notify_insert_throttle_queue_name_key', 'topic_bindings_unique_pattern_queue'
            )
            and c.relreplident = 'd'
            and not exists (select from pg_catalog.pg_index p where p.indrelid = c.oid and p.indisprimary)
        order by 1
    loop
        execute format('alter table pgmq.%I replica identity using index %I', v_table, v_key);
    end loop;
end
$$;

create or replace function pgqueue._is_partitioned(p_table text)
returns boolean
language sql stable parallel safe
as $$
    select exists (
        select from pg_catalog.pg_class c
        where c.relnamespace = 'pgmq'::regnamespace and c.relname = p_table and c.relkind = 'p'
    );
$$;

create or replace function pgqueue._is_partitioned_by_id(p_name text)
returns boolean
language sql stable parallel safe
as $$
    -- Whether the queue is partitioned by message id.
    select exists (
        select from pg_catalog.pg_class c
        join pg_catalog.pg_partitioned_table p on p.partrelid = c.oid
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = p.partattrs[0]
        where c.relnamespace = 'pgmq'::regnamespace and c.relname = 'q_' || p_name and a.attname = 'msg_id'
    );
$$;

create or replace function pgqueue._keep_ids(p_name text)
returns void
language plpgsql volatile
as $$
-- Lets the ids of an unlogged queue go on after a crash. From Postgres 15 on its sequence is unlogged too, and would begin at
-- 1 again, with ids that the archive holds. For the table's owner; for others it does nothing.
declare
    v_sequence regclass := pg_get_serial_sequence(format('pgmq.%I', 'q_' || p_name), 'msg_id');
begin
    if exists (
        select from pg_catalog.pg_class c
        where c.oid = v_sequence and c.relpersistence = 'u' and pg_has_role(c.relowner, 'usage')
    ) then
        execute format('alter sequence %s set logged', v_sequence);
    end if;
end
$$;

create or replace function pgqueue._last_id(p_table text)
returns bigint
language plpgsql stable parallel unsafe
as $$
-- The last id given to a message of a table; the highest there is where that cannot be told.
declare
    v_sequence text := pg_get_serial_sequence(p_table, 'msg_id');
begin
    if v_sequence is null or not has_sequence_privilege(v_sequence, 'select, usage') then
        return 9223372036854775807;
    end if;
    return coalesce(pg_sequence_last_value(v_sequence::regclass), 0);
end
$$;

create or replace function pgqueue._leave_partman(p_tables text[])
returns void
language plpgsql volatile
as $$
-- Tells pg_partman, which may keep up the tables of a queue that came from pgmq, that these go: it would fail without them.
declare
    v_schema name;
    v_kept_up text[] := array(
        select 'pgmq.' || c.relname
        from pg_catalog.pg_class c
        where c.relnamespace = 'pgmq'::regnamespace
            and c.relname = any(p_tables)
            and c.relkind = 'p'
            and not exists (select from pgqueue.partitioning p where p.table_name = c.relname)
    );
begin
    if v_kept_up <> '{}' then
        select n.nspname into v_schema
        from pg_catalog.pg_extension e
        join pg_catalog.pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'pg_partman';
        if found then
            execute format('delete from %I.part_config where parent_table = any($1)', v_schema) using v_kept_up;
        end if;
    end if;
end
$$;

create or replace function pgqueue._lock_queue(p_queue_name text)
returns void
language sql volatile
as $$
    -- One at a time may create, drop, compile or change the make of a queue; until the transaction ends.
    select pg_advisory_xact_lock(hashtext('pgmq.queue_' || lower(p_queue_name)));
$$;

create or replace function pgqueue._lost_lease(p_msg_id bigint, p_read_ct integer)
returns void
language plpgsql immutable parallel safe
as $$
-- SQLSTATE PQ001, of ours.
begin
    raise exception using
        errcode = 'PQ001',
        message = format('the lease on message %s, delivery %s, is lost', p_msg_id, p_read_ct),
        hint = 'It was delivered again, deleted or archived meanwhile: whatever was done for it must not be kept.';
end
$$;

create or replace function pgqueue._maintain(p_table text, p_wait_ms integer)
returns table (partitions_made integer, partitions_dropped integer, rows_moved bigint, problem text)
language plpgsql volatile
set lock_timeout = '2s'
set datestyle = 'ISO'
as $$
-- Upkeep of one partitioned table. An error is given as problem, and stops no other table's upkeep. Once it has the queue's
-- lock it waits for others for less than deadlock_timeout, a second: in a deadlock it is this that gives up, not a reader.
begin
    perform set_config('lock_timeout', p_wait_ms::text, true);
    perform pgqueue._lock_queue(substr(p_table, 3));
    perform set_config('lock_timeout', least(p_wait_ms, 500)::text, true);
    perform pgqueue._fire_triggers(substr(p_table, 3));
    select s.moved, s.problem into rows_moved, problem from pgqueue._move_spill(p_table) s;
    partitions_made := pgqueue._make_partitions(p_table);
    partitions_dropped := pgqueue._drop_expired(p_table);
    return next;
exception
    when others then
        partitions_made := 0;
        partitions_dropped := 0;
        rows_moved := 0;
        problem := sqlerrm;
        return next;
end
$$;

create or replace function pgqueue._make_indexes(p_name text)
returns void
language plpgsql volatile
as $$
-- The indexes that every queue has.
begin
    if not pgqueue._has_index(pgqueue._object_name('q_', p_name, '_ready_idx'), 'q_' || p_name) then
        perform pgqueue._fire_triggers(p_name);
        execute pgqueue._filled($ddl$
            create index %27$I on pgmq.%1$I (msg_id) where isfinite(vt) and vt - enqueued_at < interval '1 second'
        $ddl$, p_name);
    end if;
    if not pgqueue._has_index(pgqueue._object_name('q_', p_name, '_waiting_idx'), 'q_' || p_name) then
        perform pgqueue._fire_triggers(p_name);
        execute pgqueue._filled($ddl$
            create index %28$I on pgmq.%1$I (vt) where (not isfinite(vt) or vt - enqueued_at >= interval '1 second')
        $ddl$, p_name);
    end if;
    if not pgqueue._has_index(pgqueue._object_name('archived_at_idx_', p_name, ''), 'a_' || p_name) then
        execute pgqueue._filled($ddl$
            create index %31$I on pgmq.%2$I (archived_at)
        $ddl$, p_name);
    end if;
end
$$;

create or replace function pgqueue._make_notified_sequence(p_name text)
returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
-- Open to all, but only for queues whose table has the trigger that uses it: to put that there takes rights.
declare
    v_name text := pgqueue._existing_name(p_name);
begin
    if exists (
        select from pg_trigger t
        where t.tgrelid = format('pgmq.%I', 'q_' || v_name)::regclass
            and t.tgname = 'trigger_notify_queue_insert_listeners'
            and octet_length(v_name || '$notified') <= 63
    ) then
        perform pgqueue._make_sequences(v_name, array['notified']);
    end if;
end
$$;

create or replace function pgqueue._make_notify_trigger(p_name text, p_queue_name text)
returns void
language plpgsql volatile
as $$
-- Deferred, so that it decides at commit whether to notify: then a listener finds the message, and no sender waits for another.
declare
    v_table text := 'q_' || p_name;
begin
    if exists (
        select from pg_catalog.pg_trigger t
        where t.tgrelid = format('pgmq.%I', v_table)::regclass
            and t.tgname = 'trigger_notify_queue_insert_listeners'
            and t.tgfoid = 'pgmq.notify_queue_listeners()'::regprocedure
            and t.tgenabled <> 'D'
            and t.tginitdeferred
            and t.tgargs = convert_to(p_queue_name, getdatabaseencoding()) || e'\\x00'::bytea
    ) then
        return;
    end if;
    perform pgqueue._drop_notify_trigger(p_name);
    execute format(
        'create constraint trigger trigger_notify_queue_insert_listeners
        after insert on pgmq.%I
        deferrable initially deferred
        for each row execute function pgmq.notify_queue_listeners(%L)',
        v_table, p_queue_name
    );
end
$$;

create or replace function pgqueue._make_partitions(p_table text)
returns integer
language plpgsql volatile
as $$
-- Makes the partitions that are missing, up to premake ahead, and the one for what fits no other. A range that rows of
-- the default partition lie in is left to _move_spill. Says how many it made.
declare
    v_bounds record;
    v_default regclass := pgqueue._default_partition(p_table);
    v_spilled boolean;
    v_made integer := 0;
begin
    for v_bounds in
        select b.suffix, b.lower, b.upper, pgqueue._partition_name(p_table, b.suffix) as name, p.control
        from pgqueue.partitioning p
        cross join pgqueue._partition_bounds(p_table, pgqueue._newest_value(p_table), p.premake) b
        where p.table_name = p_table
    loop
        continue when pgqueue._relation_exists(v_bounds.name);
        if v_default is not null then
            execute format(
                'select exists (select from %s where %I >= %L and %I < %L)',
                v_default, v_bounds.control, v_bounds.lower, v_bounds.control, v_bounds.upper
            ) into v_spilled;
            continue when v_spilled;
        end if;
        execute format(
            'create table pgmq.%I partition of pgmq.%I for values from (%L) to (%L)',
            v_bounds.name, p_table, v_bounds.lower, v_bounds.upper
        );
        perform pgqueue._settle_partition(v_bounds.name, p_table);
        v_made := v_made + 1;
    end loop;
    if v_default is null then
        execute format(
            'create table pgmq.%I partition of pgmq.%I default', pgqueue._partition_name(p_table, '$default'), p_table
        );
        perform pgqueue._settle_partition(pgqueue._partition_name(p_table, '$default'), p_table);
        v_made := v_made + 1;
    end if;
    return v_made;
end
$$;

create or replace function pgqueue._make_sequences(p_name text, p_suffixes text[])
returns void
language plpgsql volatile
as $$
-- Sequences of a queue that hold a number for all sessions, whatever rolls back. Anyone may set them: who abuses that
-- delays a message by a second at most, as no value makes arithmetic overflow. Logged: an unlogged one is written to
-- disk when it is made (6 ms each), and what is moved once in 256 reads writes little WAL.
declare
    v_suffix text;
    v_sequence text;
begin
    foreach v_suffix in array p_suffixes loop
        v_sequence := p_name || '$' || v_suffix;
        continue when exists (
            select from pg_catalog.pg_class c
            where c.relnamespace = 'pgqueue'::regnamespace and c.relname = v_sequence
        );
        execute format(
            case v_suffix
                when 'floor_id' then 'create sequence pgqueue.%I minvalue -9223372036854775808'
                when 'floor_vt' then 'create sequence pgqueue.%I minvalue 0'
                else 'create sequence pgqueue.%I minvalue -4611686018427387904'
            end,
            v_sequence
        );
        execute format('grant select, usage, update on sequence pgqueue.%I to public', v_sequence);
    end loop;
end
$$;

create or replace function pgqueue._may_be_free(p_xmax xid, p_snapshot pg_snapshot)
returns boolean
language plpgsql stable parallel unsafe
as $$
-- Whether the transaction in a visible row's xmax had ended when the query began: then it rolled back, and the row is free.
-- True also where that is not known, so that the row lock decides: for what this transaction or a subtransaction of it may
-- have done, and beyond READ COMMITTED, where a changed row is an error. A multixact id is read as if it were a transaction's:
-- usually of one long ended, or so far ahead that it can be none.
declare
    v_next bigint := pg_snapshot_xmax(p_snapshot)::text::bigint;
    v_xmax bigint := p_xmax::text::bigint;
    -- A row holds no epoch: the one that brings xmax nearest to now.
    v_full xid8 := (v_xmax + (((v_next - v_xmax + 2147483648) >> 32) << 32))::text::xid8;
begin
    return pg_visible_in_snapshot(v_full, p_snapshot)
        or (v_full >= pg_current_xact_id_if_assigned()) is true
        or v_full::text::bigint > v_next + 1000
        or current_setting('transaction_isolation') <> 'read committed';
end
$$;

create or replace function pgqueue._metrics(
    p_queue_name text, p_name text, p_spill regclass, p_archive_spill regclass
)
returns pgmq.metrics_result
language plpgsql volatile
as $$
-- The metrics of a queue whose default partitions are known, p_spill and p_archive_spill null where it has none.
-- default_partition_length: messages and archived ones that lie in those, as far as this role may see.
declare
    v_sequence regclass;
    v_archived bigint;
    v_result pgmq.metrics_result;
begin
    if p_spill is null and p_archive_spill is null then
        execute format($sql$
            select
                $1,
                count(*),
                extract(epoch from now() - max(m.enqueued_at))::integer,
                extract(epoch from now() - min(m.enqueued_at))::integer,
                0::bigint,
                now(),
                count(*) filter (where m.vt <= now()),
                null::bigint
            from pgmq.%I m
        $sql$, 'q_' || p_name)
        into v_result
        using p_queue_name;
    else
        if has_table_privilege(p_archive_spill, 'select') then
            execute format('select count(*) from %s', p_archive_spill) into v_archived;
        end if;
        execute format($sql$
            select
                $1,
                count(*),
                extract(epoch from now() - max(m.enqueued_at))::integer,
                extract(epoch from now() - min(m.enqueued_at))::integer,
                0::bigint,
                now(),
                count(*) filter (where m.vt <= now()),
                count(*) filter (where m.tableoid = $2) + coalesce($3, 0)
            from pgmq.%I m
        $sql$, 'q_' || p_name)
        into v_result
        using p_queue_name, p_spill, v_archived;
    end if;
    -- After the count, so that the table is locked before its sequence. Not by a scan of the sequence: to plan that takes half
    -- as long as the rest.
    v_sequence := pg_get_serial_sequence(format('pgmq.%I', 'q_' || p_name), 'msg_id');
    if not has_sequence_privilege(v_sequence, 'select') then
        raise insufficient_privilege using message = 'permission denied for sequence ' || (
            select c.relname from pg_catalog.pg_class c where c.oid = v_sequence
        );
    end if;
    v_result.total_messages := coalesce(pg_sequence_last_value(v_sequence), 0);
    return v_result;
end
$$;

create or replace function pgqueue._move_floor(
    p_relation regclass,
    p_floor_id regclass,
    p_floor_vt regclass,
    p_walk regclass,
    p_ts timestamptz,
    p_own_walk bigint,
    p_clean boolean,
    p_msg_id bigint,
    p_vt timestamptz,
    out from_id bigint,
    out since timestamptz
)
language plpgsql volatile
as $$
-- Sets the floor to the lowest ready id and waiting vt found, locked or not; with no waiting row, to now + 0.9 s. Then says
-- where it is now. p_own_walk and p_clean: what _floor gave as walk and is_clean.
declare
    v_floor bigint := pg_sequence_last_value(p_floor_id);
    v_floor_us bigint := coalesce(pg_sequence_last_value(p_floor_vt), 0);
    v_vt timestamptz := coalesce(p_vt, p_ts + interval '0.9 seconds');
    v_vt_us bigint := case when v_vt > to_timestamp(0) then date_part('epoch', v_vt) * 1000000 - 1000 else 0 end;
    -- A transaction that has written sees messages that it took as gone, and may still roll back: it raises the floor only
    -- where that saves a long walk.
    v_may_rise boolean := p_clean or p_msg_id / 2 - v_floor / 2 > 500;
begin
    if p_own_walk is null then
        -- Not in use until it pays: when 256 ids lie before the first ready row, or a table has 64 pages.
        if (
            p_msg_id >= 256
            or pg_relation_size(p_relation) >= 524288
            or (select max(pg_relation_size(t.relid)) from pg_partition_tree(p_relation) t) >= 524288
        ) is not true then
            from_id := -9223372036854775808;
            since := '-infinity';
            return;
        end if;
        perform setval(p_walk, (date_part('epoch', p_ts) * 1000000)::bigint);
    elsif pg_sequence_last_value(p_walk) <> p_own_walk then
        -- Another read has begun a full walk meanwhile: not above what that finds.
        v_may_rise := false;
        v_floor := coalesce(v_floor, p_msg_id);
    end if;
    if p_msg_id < v_floor or p_msg_id > coalesce(v_floor, 0) and v_may_rise then
        perform setval(p_floor_id, p_msg_id);
    elsif v_floor is null then
        -- So low that the next transaction that has written does not raise it at once.
        perform setval(p_floor_id, greatest(p_msg_id, -9223372036854775308) - 500);
    end if;
    -- It rises by a tenth of a second at least: each time is a record in the WAL.
    if v_vt_us < v_floor_us or v_vt_us > v_floor_us + 100000 and v_may_rise then
        perform setval(p_floor_vt, v_vt_us);
    end if;
    from_id := coalesce(pg_sequence_last_value(p_floor_id), -9223372036854775808);
    since := coalesce(to_timestamp(nullif(pg_sequence_last_value(p_floor_vt), 0) / 1e6::float8), '-infinity');
end
$$;

create or replace function pgqueue._move_spill(p_table text, out moved bigint, out problem text)
language plpgsql volatile
as $$
-- Moves rows out of the default partition (the spill) into partitions of their own, ids and leases kept. Locks the table
-- against everybody: who waited for a single row would find it gone, and a weaker lock, made stronger later, would deadlock
-- with every reader. Says how many rows it moved; a range whose partition was detached is a problem: its rows stay.
declare
    v_default regclass := pgqueue._default_partition(p_table);
    v_control text := (select p.control from pgqueue.partitioning p where p.table_name = p_table);
    v_from text := case when v_control = 'msg_id' then '0' else '2001-01-01 00:00:00+00' end;
    v_least text;
    v_bounds record;
    v_columns text;
    v_rows bigint;
begin
    moved := 0;
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into v_columns
    from pg_catalog.pg_attribute a
    where a.attrelid = format('pgmq.%I', p_table)::regclass and a.attnum > 0 and not a.attisdropped
        and a.attgenerated = '';
    if v_default is null then
        return;
    end if;
    loop
        execute format(
            'select min(%1$I)::text from %2$s where %1$I >= %3$L',
            v_control, v_default, v_from
        ) into v_least;
        exit when v_least is null;
        select b.suffix, b.lower, b.upper, pgqueue._partition_name(p_table, b.suffix) as name into v_bounds
        from pgqueue._partition_bounds(p_table, v_least, 0) b;
        v_from := v_bounds.upper;
        if pgqueue._relation_exists(v_bounds.name) then
            problem := format(
                '%I is no partition of %I: messages of its range stay in the default one', v_bounds.name, p_table
            );
            continue;
        end if;
        if moved = 0 then
            execute format('lock table only pgmq.%I in access exclusive mode', p_table);
        end if;
        execute format(
            'create table pgmq.%I (like pgmq.%I including defaults including generated including constraints)',
            v_bounds.name, p_table
        );
        perform pgqueue._settle_partition(v_bounds.name, p_table);
        execute format(
            'with moved as (delete from %1$s where %2$I >= %3$L and %2$I < %4$L returning %5$s)
            insert into pgmq.%6$I (%5$s) select %5$s from moved',
            v_default, v_control, v_bounds.lower, v_bounds.upper, v_columns, v_bounds.name
        );
        get diagnostics v_rows = row_count;
        moved := moved + v_rows;
        execute format(
            'alter table pgmq.%I attach partition pgmq.%I for values from (%L) to (%L)',
            p_table, v_bounds.name, v_bounds.lower, v_bounds.upper
        );
    end loop;
end
$$;

create or replace function pgqueue._newest_value(p_table text)
returns text
language plpgsql volatile
as $$
-- The newest value of a partitioned table's control column: the last id that its queue handed out, or the time now.
declare
    v_sequence text := pg_get_serial_sequence(format('pgmq.%I', 'q_' || substr(p_table, 3)), 'msg_id');
begin
    if (select p.control from pgqueue.partitioning p where p.table_name = p_table) = 'msg_id' then
        return coalesce(pg_sequence_last_value(v_sequence::regclass), 0);
    end if;
    return clock_timestamp();
end
$$;

create or replace function pgqueue._notified(p_name text)
returns regclass
language sql stable parallel safe
as $$
    -- The sequence that holds when a queue's listeners were last notified, in microseconds; null if there is none.
    select to_regclass('pgqueue.' || quote_ident(p_name || '$notified'));
$$;

create or replace function pgqueue._object_name(p_prefix text, p_name text, p_suffix text)
returns text
language sql immutable strict parallel safe
as $$
    -- An index's name. Where it would exceed 63 bytes, and Postgres might cut it to another's, with the queue's MD5; and a
    -- dollar, which is in no queue's name, since a queue may be named like an MD5.
    select case
        when octet_length(p_prefix || p_name || p_suffix) <= 63 then p_prefix || p_name || p_suffix
        else p_prefix || md5(p_name) || '$' || p_suffix
    end;
$$;

create or replace function pgqueue._partition_bounds(p_table text, p_value text, p_ahead integer)
returns table (suffix text, lower text, upper text)
language plpgsql stable parallel safe
as $$
-- The partition that holds a value of the table's control column, and p_ahead after it: the ends of their names, and bounds.
declare
    v_cut pgqueue.partitioning;
    v_span interval;
    v_start timestamptz;
    v_first bigint;
begin
    select p.table_name, p.control, p.span, p.retention, p.premake into strict v_cut
    from pgqueue.partitioning p
    where p.table_name = p_table;
    if v_cut.control = 'msg_id' then
        v_first := p_value::bigint - p_value::bigint % v_cut.span::bigint;
        return query
        select '$p' || s.first, s.first::text, (s.first + v_cut.span::bigint)::text
        from (select v_first + n * v_cut.span::bigint as first from generate_series(0, p_ahead) n) s;
        return;
    end if;
    v_span := pgqueue._span(v_cut.span);
    v_start := pgqueue._partition_start(v_span, p_value::timestamptz);
    for n in 0..p_ahead loop
        suffix := '$p' || to_char(v_start at time zone 'UTC', 'YYYYMMDDHH24MISS');
        lower := v_start::text;
        -- By way of UTC: a day is 24 hours here, whatever the session's time zone.
        v_start := (v_start at time zone 'UTC' + v_span) at time zone 'UTC';
        upper := v_start::text;
        return next;
    end loop;
end
$$;

create or replace function pgqueue._partition_name(p_table text, p_suffix text)
returns text
language sql immutable parallel safe
as $$
    -- A dollar stands in no queue's name: a partition is never another queue's table.
    select pgqueue._object_name(left(p_table, 2), substr(p_table, 3), p_suffix);
$$;

create or replace function pgqueue._partition_start(p_span interval, p_time timestamptz)
returns timestamptz
language plpgsql immutable parallel safe
as $$
-- Where the partition begins that holds a time: whole spans from Monday, 1 January 2001, in UTC.
declare
    v_months integer := extract(year from p_span) * 12 + extract(month from p_span);
    v_month integer;
begin
    if v_months = 0 then
        return date_bin(p_span, p_time, '2001-01-01 00:00:00+00');
    end if;
    v_month := (extract(year from p_time at time zone 'UTC') - 2001) * 12 + extract(month from p_time at time zone 'UTC') - 1;
    return (
        timestamp '2001-01-01' + make_interval(months => floor(v_month::numeric / v_months)::integer * v_months)
    ) at time zone 'UTC';
end
$$;

create or replace function pgqueue._read_where(p_queue_name text, p_vt integer, p_qty integer, p_conditional jsonb)
returns setof pgmq.message_record
language plpgsql volatile
as $$
-- A read of messages that contain p_conditional: it walks the queue, as no index serves every condition.
declare
    v_name text := pgqueue._existing_name(p_queue_name);
    v_ts timestamptz := clock_timestamp();
begin
    if p_qty < 0 then
        -- Postgres says so by itself with some plans only.
        raise invalid_row_count_in_limit_clause using message = 'LIMIT must not be negative';
    end if;
    return query execute format($sql$
        with claimed as (
            update pgmq.%1$I
            set vt = $2, read_ct = read_ct + 1, last_read_at = $1
            where msg_id = any(array(
                select m.msg_id
                from pgmq.%1$I m
                where m.vt <= $1 and m.message @> $4
                order by m.msg_id
                limit $3
                for update skip locked
            ))
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        from claimed
        order by msg_id
    $sql$, 'q_' || v_name)
    using v_ts, v_ts + make_interval(secs => p_vt), p_qty, p_conditional;
end
$$;

create or replace function pgqueue._record_partitioning(
    p_table text, p_control text, p_span text, p_retention text, p_premake integer
)
returns void
language plpgsql volatile
set datestyle = 'ISO'
as $$
-- Records how a table is partitioned, and makes its first partitions.
begin
    insert into pgqueue.partitioning (table_name, control, span, retention, premake)
    values (p_table, p_control, trim(p_span), trim(p_retention), p_premake)
    on conflict on constraint partitioning_pkey do update
        set control = excluded.control,
            span = excluded.span,
            retention = excluded.retention,
            premake = excluded.premake;
    perform pgqueue._make_partitions(p_table);
end
$$;

create or replace function pgqueue._register(p_queue_name text)
returns void
language plpgsql volatile
as $$
-- Enters a queue into pgmq.meta, as its tables are (partitioned, unlogged), and compiles it.
begin
    insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
    select p_queue_name, c.relkind = 'p', c.relpersistence = 'u'
    from pg_catalog.pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relname = 'q_' || lower(p_queue_name)
    on conflict do nothing;
    perform pgqueue._keep_ids(lower(p_queue_name));
    perform pgqueue._compile_as_owner(lower(p_queue_name)), pgqueue._write_direct_calls();
end
$$;

create or replace function pgqueue._registered(p_queue_name text)
returns text
language sql stable parallel safe
as $$
    -- The name under which a queue was created, whatever the case of the name given; null if there is none.
    select m.queue_name::text
    from pgmq.meta m
    where lower(m.queue_name) = lower(p_queue_name)
    order by m.queue_name <> p_queue_name
    limit 1;
$$;

create or replace function pgqueue._relation_exists(p_name text)
returns boolean
language sql stable parallel safe
as $$
    select exists (
        select from pg_catalog.pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relname = p_name
    );
$$;

create or replace function pgqueue._send_batch(
    p_queue_name text, p_msgs jsonb[], p_headers jsonb[], p_delay timestamptz
)
returns setof bigint
language plpgsql volatile
as $$
-- Generic form of send_batch, for queues without compiled functions; an unknown queue raises 42P01.
declare
    v_name text;
begin
    perform pgqueue._check_batch(p_msgs, p_headers);
    v_name := pgqueue._existing_name(p_queue_name);
    return query execute format($sql$
        insert into pgmq.%1$I (vt, message, headers)
        select coalesce($3, now()), b.message, b.headers
        from unnest($1, $2) as b (message, headers)
        returning msg_id
    $sql$, 'q_' || v_name)
    using p_msgs, p_headers, p_delay;
end
$$;

create or replace function pgqueue._set_vt(p_queue_name text, p_msg_ids bigint[], p_vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile
set enable_seqscan = off
as $$
-- Generic form of set_vt, for queues without compiled functions; an unknown queue raises 42P01.
begin
    return query execute format($sql$
        update pgmq.%1$I m
        set vt = $2
        where m.msg_id = any($1)
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
    $sql$, 'q_' || pgqueue._existing_name(p_queue_name))
    using p_msg_ids, p_vt;
end
$$;

create or replace function pgqueue._settle_partition(p_partition text, p_table text)
returns void
language plpgsql volatile
as $$
-- Gives a new partition the owner of its table, whoever made it: else that role could not drop it when it is past its
-- retention. And the replica identity of the table, or else of the newest partition: there is no primary key, and where one
-- partition lacked what the publication needs, every read would fail.
declare
    v_table regclass;
    v_owner regrole;
    v_identity "char";
begin
    select c.oid, c.relowner, c.relreplident into v_table, v_owner, v_identity
    from pg_catalog.pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relname = p_table;
    if v_identity = 'd' then
        select c.relreplident into v_identity
        from pg_catalog.pg_inherits i
        join pg_catalog.pg_class c on c.oid = i.inhrelid
        where i.inhparent = v_table and c.relname <> p_partition
        order by c.oid desc
        limit 1;
    end if;
    if v_identity = 'f' then
        execute format('alter table pgmq.%I replica identity full', p_partition);
    elsif v_identity = 'n' then
        execute format('alter table pgmq.%I replica identity nothing', p_partition);
    end if;
    if v_owner <> current_user::regrole then
        execute format('alter table pgmq.%I owner to %s', p_partition, v_owner);
    end if;
end
$$;

create or replace function pgqueue._span(p_interval text)
returns interval
language plpgsql immutable parallel safe
set intervalstyle = 'postgres'
as $$
-- An interval by which partitions are cut, also by pg_partman's older words for it.
begin
    return case lower(p_interval)
        when 'yearly' then interval '1 year'
        when 'quarterly' then interval '3 months'
        when 'monthly' then interval '1 month'
        when 'weekly' then interval '1 week'
        when 'daily' then interval '1 day'
        when 'hourly' then interval '1 hour'
        when 'half-hour' then interval '30 minutes'
        when 'quarter-hour' then interval '15 minutes'
        else p_interval::interval
    end;
exception
    when invalid_datetime_format or datetime_field_overflow or interval_field_overflow then
        raise invalid_parameter_value
            using message = format('"%s" is neither a number of messages nor an interval of time', p_interval);
end
$$;

create or replace function pgqueue._wants_compiling(p_name text)
returns boolean
language sql stable parallel safe
as $$
    -- Whether the queue has both its tables, and compiling is not switched off for it or for the installation.
    select
        (
            select count(*) = 2
            from pg_catalog.pg_class c
            where c.relnamespace = 'pgmq'::regnamespace
                and c.relname in ('q_' || p_name, 'a_' || p_name)
                and c.relkind in ('r', 'p')
        )
        and coalesce(
            (select p.compiled from pgqueue.policy p where p.queue_name = p_name),
            (select p.compiled from pgqueue.policy p where p.queue_name = ''),
            true
        );
$$;

create or replace function pgqueue._write_direct_calls()
returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set check_function_bodies = off
as $$
-- Writes static calls for the first 32 compiled queues into the functions that take a queue's name: a dynamic call is parsed
-- and planned each time. Only 32, since every session keeps this text in memory; which they are affects speed alone. If
-- another transaction is doing this already, installs, or changes those functions, it is left to the next time. Open to all:
-- what it writes depends on the queues alone, on names that need no quoting, and goes into functions of the installation's
-- owner alone, while that role may write them.
declare
    v_names text[];
    v_calls text;
    v_mark text;
    v_old text;
    v_new text;
    v_others text;
    v_line text[];
    v_start integer;
begin
    if not has_schema_privilege('pgmq', 'create') or not pg_try_advisory_xact_lock(hashtext('pgqueue.install')) then
        return;
    end if;
    v_names := array(
        select f.queue_name collate "C"
        from (
            select m.queue_name
            from pgmq.meta m
            where m.queue_name ~ '^[a-z0-9_]+$' and to_regproc('pgqueue."' || m.queue_name || '$read"') is not null
            order by m.created_at, m.queue_name
            limit 32
        ) f
        order by 1
    );
    v_calls := case
        when v_names = '{}' then ''
        else concat_ws(
            chr(10),
            format('v_place := array_position(%L::text[], queue_name);', v_names),
            'if v_place is not null and to_regproc(''pgqueue."'' || queue_name || ''$function"'') is not null then',
            pgqueue._direct_calls(v_names, 1, '    ') || 'end if;',
            ''
        )
    end;
    v_mark := '-- others than ' || md5(v_calls);
    for v_old in
        select pg_get_functiondef(p.oid)
        from pg_proc p
        where p.pronamespace = any(array['pgmq', 'pgqueue']::regnamespace[])
            and p.proname = any(array['archive', 'complete', 'delete', 'fetch', 'pop', 'read', 'send', 'set_vt'])
            and strpos(p.prosrc, '-- direct: ') > 0
            and strpos(p.prosrc, v_mark) = 0
            and pg_get_userbyid(p.proowner) = current_user
    loop
        -- The line that says how a call is made, and what it is indented by.
        v_line := regexp_match(v_old, e'( *)-- direct: ([^\\n]*)\\n');
        v_start := strpos(v_old, v_line[2]) + length(v_line[2]) + 1;
        v_others := substr(v_old, strpos(v_old, '-- others'));
        v_new := regexp_replace(v_calls, '^( *)@([a-z0-9_]+)$', e'\\1' || v_line[2], 'gn');
        v_new := replace(v_new, '$function', (regexp_match(v_line[2], '[$][a-z0-9_]+'))[1]);
        execute left(v_old, v_start - 1)
            || regexp_replace(v_new, '^(?=.)', v_line[1], 'gn')
            || v_line[1] || v_mark || substr(v_others, strpos(v_others, chr(10)));
    end loop;
exception
    when internal_error or deadlock_detected or lock_not_available then
        -- Rights on one of them are granted or revoked meanwhile: "tuple concurrently updated", or a wait for each other or
        -- for longer than this session waits.
        null;
end
$$;

create or replace function pgmq.acquire_queue_lock(queue_name text)
returns void
language plpgsql volatile
as $$
begin
    perform pgqueue._lock_queue(queue_name);
end
$$;

create or replace function pgmq.archive(queue_name text, msg_id bigint)
returns boolean
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_found boolean;
begin
    -- direct: return pgqueue."\2$archive"(archive.msg_id);
    -- others
    v_function := lower(queue_name) || '$archive';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        execute format('select pgqueue.%I($1)', v_function)
        into v_found
        using archive.msg_id;
        return v_found;
    end if;
    return exists (select from pgqueue._archive(queue_name, array[archive.msg_id]));
end
$$;

create or replace function pgmq.archive(queue_name text, msg_ids bigint[])
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$archive_batch';
begin
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1) as b (msg_id)', v_function)
        using msg_ids;
    else
        return query
        select b.msg_id from pgqueue._archive(queue_name, msg_ids) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.bind_topic(pattern text, queue_name text)
returns void
language plpgsql volatile
as $$
declare
    v_registered text := pgqueue._registered(queue_name);
begin
    perform pgmq.validate_topic_pattern(pattern);
    if coalesce(queue_name, '') = '' then
        raise exception 'queue_name cannot be NULL or empty';
    end if;
    if v_registered is null then
        raise exception 'queue "%" does not exist', queue_name;
    end if;
    insert into pgmq.topic_bindings (pattern, queue_name)
    values (pattern, v_registered)
    on conflict on constraint topic_bindings_unique_pattern_queue do nothing;
end
$$;

create or replace function pgmq.convert_archive_partitioned(
    table_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    leading_partition integer default 10
)
returns void
language plpgsql volatile
as $$
-- Gives a queue a partitioned archive, cut by msg_id or archived_at. What was archived stays in the table a_NAME_old, as
-- with pgmq. leading_partition: how many partitions are made ahead.
declare
    v_name text := lower(table_name);
    v_control text := case pgqueue._check_partitioning(partition_interval, retention_interval, leading_partition)
        when 'msg_id' then 'msg_id'
        else 'archived_at'
    end;
    v_old text := pgqueue._object_name('a_', lower(table_name), '_old');
    v_old_index text := pgqueue._object_name('archived_at_idx_', lower(table_name), '_old');
begin
    perform pgqueue._check_characters(table_name);
    perform pgqueue._lock_queue(v_name);
    if not pgqueue._has_table('a_', v_name) then
        raise notice 'archive of queue "%" does not exist', table_name;
        return;
    end if;
    if pgqueue._is_partitioned('a_' || v_name) then
        raise notice 'archive of queue "%" is already partitioned', table_name;
        return;
    end if;
    if pgqueue._relation_exists(v_old) then
        raise duplicate_table
            using message = format('pgmq.%I exists: the old archive needs that name', v_old);
    end if;
    execute format('alter table pgmq.%I rename to %I', 'a_' || v_name, v_old);
    execute format(
        'alter index if exists pgmq.%I rename to %I', pgqueue._object_name('archived_at_idx_', v_name, ''), v_old_index
    );
    execute format($ddl$
        create table pgmq.%2$I (
            msg_id bigint not null,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            archived_at timestamptz not null default now(),
            vt timestamptz not null,
            message jsonb,
            headers jsonb
        ) partition by range (%3$I)
    $ddl$, 'q_' || v_name, 'a_' || v_name, v_control);
    perform pgqueue._record_partitioning('a_' || v_name, v_control, partition_interval, retention_interval, leading_partition);
    perform pgqueue._make_indexes(v_name);
end
$$;

create or replace function pgmq.create(queue_name text)
returns void
language sql volatile
as $$
    select pgqueue._create(queue_name, false);
$$;

create or replace function pgmq.create_fifo_index(queue_name text)
returns void
language plpgsql volatile
as $$
-- The index that grouped reads need on long queues; the queue's grouped readers are compiled for it.
declare
    v_name text;
begin
    perform pgqueue._lock_queue(queue_name);
    v_name := pgqueue._existing_name(queue_name);
    if not pgqueue._has_index(pgqueue._object_name('q_', v_name, '_fifo_idx'), 'q_' || v_name) then
        perform pgqueue._fire_triggers(v_name);
        execute pgqueue._filled($ddl$
            create index %29$I on pgmq.%1$I (
    hashtextextended(coalesce(headers ->> 'x-pgmq-group', '_default_fifo_group'), 0), (msg_id + 0)
)
        $ddl$, v_name);
        perform pgqueue._compile_as_owner(v_name);
    end if;
end
$$;

create or replace function pgmq.create_fifo_indexes_all()
returns void
language plpgsql volatile
as $$
declare
    v_queue record;
begin
    for v_queue in select m.queue_name from pgmq.meta m order by m.queue_name loop
        begin
            perform pgmq.create_fifo_index(v_queue.queue_name);
        exception
            when undefined_table then
                null; -- dropped meanwhile
        end;
    end loop;
end
$$;

create or replace function pgmq.create_non_partitioned(queue_name text)
returns void
language sql volatile
as $$
    select pgqueue._create(queue_name, false);
$$;

create or replace function pgmq.create_partitioned(
    queue_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    premake integer default 4
)
returns void
language plpgsql volatile
as $$
-- A number cuts by msg_id, an interval by time: the queue by enqueued_at, its archive by archived_at. pgqueue.maintain()
-- does the upkeep; pg_partman is not needed.
declare
    v_name text := pgqueue._check_name(queue_name);
    v_control text := pgqueue._check_partitioning(partition_interval, retention_interval, premake);
    v_archive_control text := case v_control when 'msg_id' then 'msg_id' else 'archived_at' end;
begin
    perform pgqueue._lock_queue(v_name);
    perform pgqueue._check_case_collision(queue_name);
    if pgqueue._has_table('q_', v_name) then
        if not pgqueue._is_partitioned('q_' || v_name) then
            raise duplicate_table using message = format('queue "%s" exists, and is not partitioned', queue_name);
        end if;
        return;
    end if;
    if pgqueue._relation_exists('a_' || v_name) then
        raise duplicate_table
            using message = format('pgmq.%I is there already: a partitioned queue needs that name', 'a_' || v_name);
    end if;
    execute format($ddl$
        create table pgmq.%1$I (
            msg_id bigint generated by default as identity,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            vt timestamptz not null,
            message jsonb,
            headers jsonb
        ) partition by range (%3$I)
    $ddl$, 'q_' || v_name, 'a_' || v_name, v_control);
    execute format($ddl$
        create table pgmq.%2$I (
            msg_id bigint not null,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            archived_at timestamptz not null default now(),
            vt timestamptz not null,
            message jsonb,
            headers jsonb
        ) partition by range (%3$I)
    $ddl$, 'q_' || v_name, 'a_' || v_name, v_archive_control);
    if not pgqueue._has_index(pgqueue._object_name('q_', v_name, '_msg_id_idx'), 'q_' || v_name) then
        execute pgqueue._filled($ddl$
            create index %30$I on pgmq.%1$I (msg_id)
        $ddl$, v_name);
    end if;
    perform pgqueue._make_indexes(v_name);
    perform pgqueue._record_partitioning('q_' || v_name, v_control, partition_interval, retention_interval, premake);
    perform pgqueue._record_partitioning('a_' || v_name, v_archive_control, partition_interval, retention_interval, premake);
    perform pgqueue._register(queue_name);
end
$$;

create or replace function pgmq.create_unlogged(queue_name text)
returns void
language sql volatile
as $$
    select pgqueue._create(queue_name, true);
$$;

create or replace function pgmq.delete(queue_name text, msg_id bigint)
returns boolean
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_found boolean;
begin
    -- direct: return pgqueue."\2$delete"(delete.msg_id);
    -- others
    v_function := lower(queue_name) || '$delete';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        execute format('select pgqueue.%I($1)', v_function)
        into v_found
        using delete.msg_id;
        return v_found;
    end if;
    return exists (select from pgqueue._delete(queue_name, array[delete.msg_id]));
end
$$;

create or replace function pgmq.delete(queue_name text, msg_ids bigint[])
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$delete_batch';
begin
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1) as b (msg_id)', v_function)
        using msg_ids;
    else
        return query
        select b.msg_id from pgqueue._delete(queue_name, msg_ids) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.detach_archive(queue_name text)
returns void
language plpgsql volatile
as $$
begin
    perform pgqueue._check_characters(queue_name);
    raise warning 'detach_archive(queue_name) is deprecated and is a no-op. It will be removed in PGMQ v2.0. Archive tables are no longer member objects.';
end
$$;

create or replace function pgmq.disable_notify_insert(queue_name text)
returns void
language plpgsql volatile
as $$
declare
    v_name text;
begin
    perform pgqueue._lock_queue(queue_name);
    v_name := pgqueue._existing_name(queue_name);
    perform pgqueue._drop_notify_trigger(v_name);
    delete from pgmq.notify_insert_throttle t where lower(t.queue_name) = v_name;
end
$$;

create or replace function pgmq.drop_queue(queue_name text)
returns boolean
language plpgsql volatile
as $$
-- Drops a queue with its archive; false, with a notice, where there is none.
begin
    if pgqueue._drop(queue_name, false) then
        perform pgqueue._write_direct_calls();
        return true;
    end if;
    raise notice 'pgmq queue `%` does not exist', queue_name;
    return false;
end
$$;

create or replace function pgmq.drop_queue(queue_name text, partitioned boolean)
returns boolean
language plpgsql volatile
as $$
begin
    raise warning 'drop_queue(queue_name, partitioned) is deprecated and will be removed in PGMQ v2.0. Use drop_queue(queue_name) instead';
    perform pgmq.drop_queue(queue_name);
    return true;
end
$$;

create or replace function pgmq.enable_notify_insert(queue_name text, throttle_interval_ms integer default 250)
returns void
language plpgsql volatile
as $$
declare
    v_name text := lower(queue_name);
    v_registered text;
begin
    perform pgqueue._check_characters(queue_name);
    if throttle_interval_ms < 0 then
        raise exception 'throttle_interval_ms must be non-negative';
    end if;
    perform pgqueue._lock_queue(v_name);
    v_registered := pgqueue._registered(queue_name);
    if v_registered is null or not pgqueue._has_table('q_', v_name) then
        raise exception 'queue "%" does not exist', queue_name;
    end if;
    if octet_length(format('pgmq.q_%s.INSERT', v_name)) > 63 then
        raise exception 'queue name "%" is too long for a notification channel', queue_name
            using hint = 'The channel pgmq.q_NAME.INSERT may have 63 bytes.';
    end if;
    insert into pgmq.notify_insert_throttle as t (queue_name, throttle_interval_ms)
    values (v_registered, enable_notify_insert.throttle_interval_ms)
    on conflict on constraint notify_insert_throttle_queue_name_key do update
        set throttle_interval_ms = excluded.throttle_interval_ms, last_notified_at = excluded.last_notified_at;
    perform pgqueue._make_notify_trigger(v_name, v_registered);
    perform pgqueue._make_notified_sequence(v_name);
    perform setval(pgqueue._notified(v_name), 0);
end
$$;

create or replace function pgmq.format_table_name(queue_name text, prefix text)
returns text
language plpgsql volatile parallel safe
as $$
begin
    perform pgqueue._check_characters(queue_name);
    return lower(prefix || '_' || queue_name);
end
$$;

create or replace function pgmq.list_notify_insert_throttles()
returns table (queue_name text, throttle_interval_ms integer, last_notified_at timestamptz)
language sql stable parallel safe
as $$
    select
        t.queue_name,
        t.throttle_interval_ms,
        greatest(
            t.last_notified_at,
            -- a queue that is just being dropped is waited for, and then has no sequence
            case
                when pg_relation_is_updatable(to_regclass('pgmq.' || quote_ident('q_' || lower(t.queue_name))), false) > 0
                then to_timestamp(pg_sequence_last_value(pgqueue._notified(lower(t.queue_name))) / 1000000.0)
            end
        )
    from pgmq.notify_insert_throttle t
    order by t.queue_name;
$$;

create or replace function pgmq.list_queues()
returns setof pgmq.queue_record
language sql volatile parallel safe
as $$
    select m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at
    from pgmq.meta m;
$$;

create or replace function pgmq.list_topic_bindings()
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql stable parallel safe
as $$
    select b.pattern, b.queue_name, b.bound_at, b.compiled_regex
    from pgmq.topic_bindings b
    order by b.bound_at desc, b.pattern, b.queue_name;
$$;

create or replace function pgmq.list_topic_bindings(queue_name text)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql stable parallel safe
as $$
    select b.pattern, b.queue_name, b.bound_at, b.compiled_regex
    from pgmq.topic_bindings b
    where lower(b.queue_name) = lower(list_topic_bindings.queue_name)
    order by b.bound_at desc, b.pattern;
$$;

create or replace function pgmq.metrics(queue_name text)
returns pgmq.metrics_result
language plpgsql volatile
as $$
declare
    v_name text := pgqueue._existing_name(queue_name);
begin
    return pgqueue._metrics(
        queue_name, v_name, pgqueue._default_partition('q_' || v_name), pgqueue._default_partition('a_' || v_name)
    );
end
$$;

create or replace function pgmq.metrics_all()
returns setof pgmq.metrics_result
language plpgsql volatile
as $$
-- Leaves out queues whose count might run their owner's code with the caller's rights, unless that is the owner of pgmq, who
-- could do so anyway: a view in the place of the table, row policies, columns of the owner's own types. On a standby also
-- unlogged queues, which nobody can read there.
declare
    v_owner oid := (select n.nspowner from pg_catalog.pg_namespace n where n.nspname = 'pgmq');
    v_queue record;
begin
    for v_queue in
        select
            m.queue_name,
            lower(m.queue_name) as name,
            nullif(p.partdefid, 0) as spill,
            nullif(ap.partdefid, 0) as archive_spill
        from pgmq.meta m
        join pg_catalog.pg_class c
            on c.relname = 'q_' || lower(m.queue_name) and c.relnamespace = 'pgmq'::regnamespace
        left join pg_catalog.pg_partitioned_table p on p.partrelid = c.oid
        left join pg_catalog.pg_class a
            on a.relname = 'a_' || lower(m.queue_name) and a.relnamespace = 'pgmq'::regnamespace
        left join pg_catalog.pg_partitioned_table ap on ap.partrelid = a.oid
        where c.relkind in ('r', 'p')
            and (not row_security_active(c.oid) or c.relowner = v_owner)
            and not (c.relpersistence = 'u' and pg_is_in_recovery())
            and 2 = (
                select count(*)
                from pg_catalog.pg_attribute t
                where t.attrelid = c.oid and t.attname in ('enqueued_at', 'vt') and t.atttypid = 'timestamptz'::regtype
            )
    loop
        begin
            return next pgqueue._metrics(v_queue.queue_name, v_queue.name, v_queue.spill, v_queue.archive_spill);
        exception
            when undefined_table then
                null; -- dropped meanwhile
        end;
    end loop;
end
$$;

create or replace function pgmq.notify_queue_listeners()
returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
-- Runs at the sender's commit, for each message. When listeners were last told stands in a sequence, which no sender
-- holds until another's commit. Arguments: the queue's name, and the table whose channel is told.
declare
    v_queue_name text := coalesce(tg_argv[0], substr(tg_table_name, 3));
    v_table text := coalesce('q_' || lower(tg_argv[0]), tg_table_name);
    v_sequence regclass := to_regclass('pgqueue.' || quote_ident(lower(v_queue_name) || '$notified'));
    v_now bigint := date_part('epoch', clock_timestamp()) * 1000000;
    v_gap bigint;
    v_interval bigint;
    v_last timestamptz;
begin
    v_gap := v_now - coalesce(pg_sequence_last_value(v_sequence), 0);
    select t.throttle_interval_ms * 1000::bigint, t.last_notified_at
    into v_interval, v_last
    from pgmq.notify_insert_throttle t
    where t.queue_name = v_queue_name;
    -- A stamp in the future, of a clock set back, does not silence the queue.
    if v_gap < 0 or v_gap >= v_interval then
        perform setval(v_sequence, v_now);
        perform pg_notify('pgmq.' || v_table || '.' || tg_op, null);
        if v_last < clock_timestamp() - interval '1 minute'
            and current_setting('transaction_isolation') = 'read committed'
        then
            -- For who reads pgmq's column: a minute behind at most. A row that another has locked is not waited for.
            update pgmq.notify_insert_throttle t
            set last_notified_at = to_timestamp(v_now / 1e6::float8)
            where t.queue_name = (
                select l.queue_name
                from pgmq.notify_insert_throttle l
                where l.queue_name = v_queue_name
                for no key update skip locked
            );
        end if;
    end if;
    return new;
end
$$;

create or replace function pgmq.pop(queue_name text, qty integer default 1)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
begin
    -- direct: return query select * from pgqueue."\2$pop"(qty); return;
    -- others
    v_function := lower(queue_name) || '$pop';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1)', v_function)
        using qty;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._claim(queue_name, null, qty, true) m;
    end if;
end
$$;

create or replace function pgmq.purge_queue(queue_name text)
returns bigint
language plpgsql volatile
as $$
-- Deletes all messages; says how many. By truncate where nobody else holds the table and this role may, else row by
-- row: it never makes readers queue behind a lock that it waits for.
declare
    v_name text := pgqueue._existing_name(queue_name);
    v_table text := 'q_' || v_name;
    v_purged bigint;
begin
    if has_table_privilege(format('pgmq.%I', v_table), 'truncate') then
        begin
            execute format('lock table pgmq.%I in access exclusive mode nowait', v_table);
            perform pgqueue._fire_triggers(v_name);
            execute format('select count(*) from pgmq.%I', v_table) into v_purged;
            execute format('truncate table pgmq.%I', v_table);
            return v_purged;
        exception
            when lock_not_available then
                null;
        end;
    end if;
    execute format('delete from pgmq.%I', v_table);
    get diagnostics v_purged = row_count;
    return v_purged;
end
$$;

create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
begin
    if conditional <> '{}' then
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._read_where(queue_name, read.vt, qty, conditional) m;
        return;
    end if;
    -- direct: return query select * from pgqueue."\2$read"(read.vt, qty); return;
    -- others
    v_function := lower(queue_name) || '$read';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using read.vt, qty;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._claim(queue_name, read.vt, qty, false) m;
    end if;
end
$$;

create or replace function pgmq.read_grouped(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$read_grouped';
begin
    if qty is not null and to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, qty;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._claim_grouped(queue_name, $2, qty, 'batch') m;
    end if;
end
$$;

create or replace function pgmq.read_grouped_head(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$grouped_head';
begin
    if qty is not null and to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, qty;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._claim_grouped(queue_name, $2, qty, 'head') m;
    end if;
end
$$;

create or replace function pgmq.read_grouped_head_with_poll(
    queue_name text,
    vt integer,
    qty integer,
    max_poll_seconds integer default 5,
    poll_interval_ms integer default 100
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_stop timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    loop
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgmq.read_grouped_head(queue_name, $2, qty) m;
        exit when found or clock_timestamp() >= v_stop;
        perform pg_sleep(coalesce(poll_interval_ms, 100) / 1000.0);
    end loop;
end
$$;

create or replace function pgmq.read_grouped_rr(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$read_grouped_rr';
begin
    if qty is not null and to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, qty;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._claim_grouped(queue_name, $2, qty, 'rr') m;
    end if;
end
$$;

create or replace function pgmq.read_grouped_rr_with_poll(
    queue_name text,
    vt integer,
    qty integer,
    max_poll_seconds integer default 5,
    poll_interval_ms integer default 100
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_stop timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    loop
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgmq.read_grouped_rr(queue_name, $2, qty) m;
        exit when found or clock_timestamp() >= v_stop;
        perform pg_sleep(coalesce(poll_interval_ms, 100) / 1000.0);
    end loop;
end
$$;

create or replace function pgmq.read_grouped_with_poll(
    queue_name text,
    vt integer,
    qty integer,
    max_poll_seconds integer default 5,
    poll_interval_ms integer default 100
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_stop timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    loop
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgmq.read_grouped(queue_name, $2, qty) m;
        exit when found or clock_timestamp() >= v_stop;
        perform pg_sleep(coalesce(poll_interval_ms, 100) / 1000.0);
    end loop;
end
$$;

create or replace function pgmq.read_with_poll(
    queue_name text,
    vt integer,
    qty integer,
    max_poll_seconds integer default 5,
    poll_interval_ms integer default 100,
    conditional jsonb default '{}'
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_stop timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    loop
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgmq.read(queue_name, $2, qty, conditional) m;
        exit when found or clock_timestamp() >= v_stop;
        perform pg_sleep(coalesce(poll_interval_ms, 100) / 1000.0);
    end loop;
end
$$;

create or replace function pgmq.send(
    queue_name text,
    msg jsonb,
    headers jsonb,
    delay timestamptz
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_msg_id bigint;
begin
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    <<delivery>>
    begin
        -- direct: v_msg_id := pgqueue."\2$send"(msg, headers, delay); exit delivery;
        -- others
        v_function := lower(queue_name) || '$send';
        if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
            execute format('select pgqueue.%I($1, $2, $3)', v_function)
            into v_msg_id
            using msg, headers, delay;
        else
            return query
            select s.msg_id
            from pgqueue._send_batch(
                queue_name, array[msg], array[headers], delay
            ) as s (msg_id);
            return;
        end if;
    end;
    if delay = '-infinity' then
        execute format('select pgqueue.%I($1, $2)', lower(queue_name) || '$lower_floor')
        using '{}'::bigint[], delay;
    end if;
    -- null where a trigger of the user's keeps the message out
    if v_msg_id is not null then
        return next v_msg_id;
    end if;
end
$$;

create or replace function pgmq.send(
    queue_name text,
    msg jsonb
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_msg_id bigint;
begin

    <<delivery>>
    begin
        -- direct: v_msg_id := pgqueue."\2$send"(msg, null::jsonb, null::timestamptz); exit delivery;
        -- others
        v_function := lower(queue_name) || '$send';
        if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
            execute format('select pgqueue.%I($1, $2, $3)', v_function)
            into v_msg_id
            using msg, null::jsonb, null::timestamptz;
        else
            return query
            select s.msg_id
            from pgqueue._send_batch(
                queue_name, array[msg], null, null::timestamptz
            ) as s (msg_id);
            return;
        end if;
    end;

    -- null where a trigger of the user's keeps the message out
    if v_msg_id is not null then
        return next v_msg_id;
    end if;
end
$$;

create or replace function pgmq.send(
    queue_name text,
    msg jsonb,
    headers jsonb
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_msg_id bigint;
begin

    <<delivery>>
    begin
        -- direct: v_msg_id := pgqueue."\2$send"(msg, headers, null::timestamptz); exit delivery;
        -- others
        v_function := lower(queue_name) || '$send';
        if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
            execute format('select pgqueue.%I($1, $2, $3)', v_function)
            into v_msg_id
            using msg, headers, null::timestamptz;
        else
            return query
            select s.msg_id
            from pgqueue._send_batch(
                queue_name, array[msg], array[headers], null::timestamptz
            ) as s (msg_id);
            return;
        end if;
    end;

    -- null where a trigger of the user's keeps the message out
    if v_msg_id is not null then
        return next v_msg_id;
    end if;
end
$$;

create or replace function pgmq.send(
    queue_name text,
    msg jsonb,
    delay integer
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_msg_id bigint;
begin
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    <<delivery>>
    begin
        -- direct: v_msg_id := pgqueue."\2$send"(msg, null::jsonb, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end); exit delivery;
        -- others
        v_function := lower(queue_name) || '$send';
        if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
            execute format('select pgqueue.%I($1, $2, $3)', v_function)
            into v_msg_id
            using msg, null::jsonb, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end;
        else
            return query
            select s.msg_id
            from pgqueue._send_batch(
                queue_name, array[msg], null, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end
            ) as s (msg_id);
            return;
        end if;
    end;

    -- null where a trigger of the user's keeps the message out
    if v_msg_id is not null then
        return next v_msg_id;
    end if;
end
$$;

create or replace function pgmq.send(
    queue_name text,
    msg jsonb,
    delay timestamptz
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_msg_id bigint;
begin
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    <<delivery>>
    begin
        -- direct: v_msg_id := pgqueue."\2$send"(msg, null::jsonb, delay); exit delivery;
        -- others
        v_function := lower(queue_name) || '$send';
        if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
            execute format('select pgqueue.%I($1, $2, $3)', v_function)
            into v_msg_id
            using msg, null::jsonb, delay;
        else
            return query
            select s.msg_id
            from pgqueue._send_batch(
                queue_name, array[msg], null, delay
            ) as s (msg_id);
            return;
        end if;
    end;
    if delay = '-infinity' then
        execute format('select pgqueue.%I($1, $2)', lower(queue_name) || '$lower_floor')
        using '{}'::bigint[], delay;
    end if;
    -- null where a trigger of the user's keeps the message out
    if v_msg_id is not null then
        return next v_msg_id;
    end if;
end
$$;

create or replace function pgmq.send(
    queue_name text,
    msg jsonb,
    headers jsonb,
    delay integer
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_msg_id bigint;
begin
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    <<delivery>>
    begin
        -- direct: v_msg_id := pgqueue."\2$send"(msg, headers, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end); exit delivery;
        -- others
        v_function := lower(queue_name) || '$send';
        if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
            execute format('select pgqueue.%I($1, $2, $3)', v_function)
            into v_msg_id
            using msg, headers, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end;
        else
            return query
            select s.msg_id
            from pgqueue._send_batch(
                queue_name, array[msg], array[headers], case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end
            ) as s (msg_id);
            return;
        end if;
    end;

    -- null where a trigger of the user's keeps the message out
    if v_msg_id is not null then
        return next v_msg_id;
    end if;
end
$$;

create or replace function pgmq.send_batch(
    queue_name text,
    msgs jsonb[],
    headers jsonb[],
    delay timestamptz
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$send_batch';
begin
    perform pgqueue._check_batch(msgs, headers);
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1, $2, $3) as b (msg_id)', v_function)
        using msgs, headers, delay;
        if delay = '-infinity' then
            execute format('select pgqueue.%I($1, $2)', lower(queue_name) || '$lower_floor')
            using '{}'::bigint[], delay;
        end if;
    else
        return query
        select b.msg_id
        from pgqueue._send_batch(
            queue_name, msgs, headers, delay
        ) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.send_batch(
    queue_name text,
    msgs jsonb[]
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$send_batch';
begin

    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1, $2, $3) as b (msg_id)', v_function)
        using msgs, null::jsonb[], null::timestamptz;

    else
        return query
        select b.msg_id
        from pgqueue._send_batch(
            queue_name, msgs, null, null::timestamptz
        ) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.send_batch(
    queue_name text,
    msgs jsonb[],
    headers jsonb[]
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$send_batch';
begin

    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1, $2, $3) as b (msg_id)', v_function)
        using msgs, headers, null::timestamptz;

    else
        return query
        select b.msg_id
        from pgqueue._send_batch(
            queue_name, msgs, headers, null::timestamptz
        ) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.send_batch(
    queue_name text,
    msgs jsonb[],
    delay integer
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$send_batch';
begin
    perform pgqueue._check_batch(msgs, null);
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1, $2, $3) as b (msg_id)', v_function)
        using msgs, null::jsonb[], case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end;

    else
        return query
        select b.msg_id
        from pgqueue._send_batch(
            queue_name, msgs, null, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end
        ) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.send_batch(
    queue_name text,
    msgs jsonb[],
    delay timestamptz
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$send_batch';
begin
    perform pgqueue._check_batch(msgs, null);
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1, $2, $3) as b (msg_id)', v_function)
        using msgs, null::jsonb[], delay;
        if delay = '-infinity' then
            execute format('select pgqueue.%I($1, $2)', lower(queue_name) || '$lower_floor')
            using '{}'::bigint[], delay;
        end if;
    else
        return query
        select b.msg_id
        from pgqueue._send_batch(
            queue_name, msgs, null, delay
        ) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.send_batch(
    queue_name text,
    msgs jsonb[],
    headers jsonb[],
    delay integer
)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_function text := lower(queue_name) || '$send_batch';
begin
    perform pgqueue._check_batch(msgs, headers);
    if delay is null then
        raise not_null_violation using message = 'delay cannot be null';
    end if;

    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select b.msg_id from pgqueue.%I($1, $2, $3) as b (msg_id)', v_function)
        using msgs, headers, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end;

    else
        return query
        select b.msg_id
        from pgqueue._send_batch(
            queue_name, msgs, headers, case when delay <> 0 then clock_timestamp() + make_interval(secs => delay) end
        ) as b (msg_id);
    end if;
end
$$;

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz
)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
as $$
begin
    perform pgmq.validate_routing_key(routing_key);
    perform pgqueue._check_batch(msgs, headers);
    return query
    select d.queue_name, d.msg_id
    from pgqueue._deliver(routing_key, msgs, headers, delay) d;
end
$$;

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[]
)
returns table (queue_name text, msg_id bigint)
language sql volatile
as $$
    select d.queue_name, d.msg_id
    from pgmq.send_batch_topic(
        routing_key,
        msgs,
null,
        now()

    ) d;
$$;

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[]
)
returns table (queue_name text, msg_id bigint)
language sql volatile
as $$
    select d.queue_name, d.msg_id
    from pgmq.send_batch_topic(
        routing_key,
        msgs,
headers,
        now()

    ) d;
$$;

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], delay integer
)
returns table (queue_name text, msg_id bigint)
language sql volatile
as $$
    select d.queue_name, d.msg_id
    from pgmq.send_batch_topic(
        routing_key,
        msgs,
null,
        case when delay = 0 then now() else clock_timestamp() + make_interval(secs => delay) end

    ) d;
$$;

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], delay timestamptz
)
returns table (queue_name text, msg_id bigint)
language sql volatile
as $$
    select d.queue_name, d.msg_id
    from pgmq.send_batch_topic(
        routing_key,
        msgs,
null,
        delay

    ) d;
$$;

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay integer
)
returns table (queue_name text, msg_id bigint)
language sql volatile
as $$
    select d.queue_name, d.msg_id
    from pgmq.send_batch_topic(
        routing_key,
        msgs,
headers,
        case when delay = 0 then now() else clock_timestamp() + make_interval(secs => delay) end

    ) d;
$$;

create or replace function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb, delay integer)
returns integer
language plpgsql volatile
as $$
declare
    v_sent integer;
begin
    perform pgmq.validate_routing_key(routing_key);
    if msg is null then
        raise exception 'msg cannot be NULL';
    end if;
    if delay < 0 then
        raise exception 'delay cannot be negative, got: %', delay;
    end if;
    select count(*) into v_sent
    from pgqueue._deliver(
        routing_key,
        array[msg],
        array[headers],
        case when delay = 0 then now() else clock_timestamp() + make_interval(secs => delay) end
    );
    return v_sent;
end
$$;

create or replace function pgmq.send_topic(routing_key text, msg jsonb)
returns integer
language sql volatile
as $$
    select pgmq.send_topic(routing_key, msg, null, 0);
$$;

create or replace function pgmq.send_topic(routing_key text, msg jsonb, delay integer)
returns integer
language sql volatile
as $$
    select pgmq.send_topic(routing_key, msg, null, delay);
$$;

create or replace function pgmq.set_vt(
    queue_name text,
    msg_id bigint,
    vt timestamptz
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_vt timestamptz := $3;
begin
    -- direct: return query select * from pgqueue."\2$set_vt"($2, v_vt); return;
    -- others
    v_function := lower(queue_name) || '$set_vt';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, v_vt;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._set_vt(queue_name, array[$2], v_vt) m;
    end if;
end
$$;

create or replace function pgmq.set_vt(
    queue_name text,
    msg_id bigint,
    vt integer
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text;
    v_place integer;
    v_vt timestamptz := clock_timestamp() + make_interval(secs => $3);
begin
    -- direct: return query select * from pgqueue."\2$set_vt"($2, v_vt); return;
    -- others
    v_function := lower(queue_name) || '$set_vt';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, v_vt;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._set_vt(queue_name, array[$2], v_vt) m;
    end if;
end
$$;

create or replace function pgmq.set_vt(
    queue_name text,
    msg_ids bigint[],
    vt timestamptz
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text;
    v_vt timestamptz := $3;
begin
    v_function := lower(queue_name) || '$set_vt_batch';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, v_vt;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._set_vt(queue_name, $2, v_vt) m;
    end if;
end
$$;

create or replace function pgmq.set_vt(
    queue_name text,
    msg_ids bigint[],
    vt integer
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
declare
    v_function text;
    v_vt timestamptz := clock_timestamp() + make_interval(secs => $3);
begin
    v_function := lower(queue_name) || '$set_vt_batch';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2)', v_function)
        using $2, v_vt;
    else
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._set_vt(queue_name, $2, v_vt) m;
    end if;
end
$$;

create or replace function pgmq.test_routing(routing_key text)
returns table (pattern text, queue_name text, compiled_regex text)
language plpgsql stable parallel safe
as $$
begin
    perform pgmq.validate_routing_key(routing_key);
    return query
    select b.pattern, b.queue_name, b.compiled_regex
    from pgmq.topic_bindings b
    where routing_key ~ b.compiled_regex
    order by b.pattern;
end
$$;

create or replace function pgmq.unbind_topic(pattern text, queue_name text)
returns boolean
language plpgsql volatile
as $$
begin
    if coalesce(pattern, '') = '' then
        raise exception 'pattern cannot be NULL or empty';
    end if;
    if coalesce(queue_name, '') = '' then
        raise exception 'queue_name cannot be NULL or empty';
    end if;
    delete from pgmq.topic_bindings b
    where b.pattern = unbind_topic.pattern and lower(b.queue_name) = lower(unbind_topic.queue_name);
    return found;
end
$$;

create or replace function pgmq.update_notify_insert(queue_name text, throttle_interval_ms integer)
returns void
language plpgsql volatile
as $$
declare
    v_registered text;
begin
    if throttle_interval_ms < 0 then
        raise exception 'throttle_interval_ms must be non-negative, got: %', throttle_interval_ms;
    end if;
    perform pgqueue._lock_queue(queue_name);
    v_registered := pgqueue._registered(queue_name);
    if v_registered is null then
        raise exception 'queue "%" does not exist', queue_name;
    end if;
    update pgmq.notify_insert_throttle t
    set throttle_interval_ms = update_notify_insert.throttle_interval_ms, last_notified_at = to_timestamp(0)
    where t.queue_name = v_registered;
    if not found then
        raise exception 'Queue "%" does not have notify_insert enabled. Enable it first using pgmq.enable_notify_insert()', queue_name;
    end if;
    perform setval(pgqueue._notified(lower(v_registered)), 0);
end
$$;

create or replace function pgmq.validate_queue_name(queue_name text)
returns void
language plpgsql volatile parallel safe
as $$
begin
    perform pgqueue._check_name(queue_name);
end
$$;

create or replace function pgmq.validate_routing_key(routing_key text)
returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if coalesce(routing_key, '') = '' then
        raise exception 'routing_key cannot be NULL or empty';
    elsif length(routing_key) > 255 then
        raise exception 'routing_key length cannot exceed 255 characters, got % characters', length(routing_key);
    elsif routing_key !~ '^[a-zA-Z0-9._-]+$' then
        raise exception 'routing_key contains invalid characters. Only alphanumeric, dots, hyphens, and underscores are allowed. Got: %', routing_key;
    elsif routing_key ~ '^[.]' then
        raise exception 'routing_key cannot start with a dot. Got: %', routing_key;
    elsif routing_key ~ '[.]$' then
        raise exception 'routing_key cannot end with a dot. Got: %', routing_key;
    elsif routing_key ~ '[.][.]' then
        raise exception 'routing_key cannot contain consecutive dots. Got: %', routing_key;
    end if;
    return true;
end
$$;

create or replace function pgmq.validate_topic_pattern(pattern text)
returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if coalesce(pattern, '') = '' then
        raise exception 'pattern cannot be NULL or empty';
    elsif length(pattern) > 255 then
        raise exception 'pattern length cannot exceed 255 characters, got % characters', length(pattern);
    elsif pattern !~ '^[a-zA-Z0-9._*#-]+$' then
        raise exception 'pattern contains invalid characters. Only alphanumeric, dots, hyphens, underscores, *, and # are allowed. Got: %', pattern;
    elsif pattern ~ '^[.]' then
        raise exception 'pattern cannot start with a dot. Got: %', pattern;
    elsif pattern ~ '[.]$' then
        raise exception 'pattern cannot end with a dot. Got: %', pattern;
    elsif pattern ~ '[.][.]' then
        raise exception 'pattern cannot contain consecutive dots. Got: %', pattern;
    elsif pattern ~ '[*][*]' then
        raise exception 'pattern cannot contain consecutive stars (**). Use # for multi-segment matching. Got: %', pattern;
    elsif pattern ~ '##' then
        raise exception 'pattern cannot contain consecutive hashes (##). A single # already matches zero or more segments. Got: %', pattern;
    elsif pattern ~ '[*]#|#[*]' then
        raise exception 'pattern cannot contain adjacent wildcards (*# or #*). Separate wildcards with dots. Got: %', pattern;
    end if;
    return true;
end
$$;

create or replace function pgqueue.compile(queue_name text)
returns boolean
language plpgsql volatile
as $$
-- Makes the compiled functions of a queue anew; says whether it is compiled now (its name may be too long, or compiling
-- switched off by decompile). For the owner of its table and those who may create queues.
declare
    v_name text;
    v_is_compiled boolean;
begin
    perform pgqueue._lock_queue(queue_name);
    v_name := pgqueue._existing_name(queue_name);
    perform pgqueue._check_rights(v_name);
    if has_table_privilege('pgqueue.policy', 'delete') then
        delete from pgqueue.policy p where p.queue_name = v_name and not p.compiled;
    end if;
    perform pgqueue._keep_ids(v_name);
    v_is_compiled := pgqueue._compile_as_owner(v_name);
    perform pgqueue._write_direct_calls();
    return v_is_compiled;
end
$$;

create or replace function pgqueue.complete(
    queue_name text, msg_id bigint, read_ct integer, archive boolean default true
)
returns void
language plpgsql volatile
as $$
-- Archives or deletes a message for whoever holds its lease, the delivery number read_ct. A lost lease raises PQ001, and so
-- rolls back the caller's own work in the same transaction.
declare
    v_function text;
    v_place integer;
begin
    -- direct: perform pgqueue."\2$complete"($2, $3, archive); return;
    -- others
    v_function := lower(queue_name) || '$complete';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        execute format('select pgqueue.%I($1, $2, $3)', v_function)
        using $2, $3, archive;
    elsif pgqueue._finish(queue_name, array[$2], array[$3], archive) = 0 then
        perform pgqueue._lost_lease($2, $3);
    end if;
end
$$;

create or replace function pgqueue.counts(
    queue_name text, approximate boolean default false, out total bigint, out ready bigint, out waiting bigint
)
language plpgsql stable parallel safe
as $$
-- How many messages a queue holds, and how many of those are visible or not. approximate: from the statistics that vacuum
-- and analyze keep, in no time; ready then means sent without delay and not read yet.
declare
    v_name text := pgqueue._existing_name(queue_name);
begin
    if approximate then
        select
            pgqueue._estimated_rows(format('pgmq.%I', 'q_' || v_name)::regclass),
            pgqueue._estimated_rows(to_regclass('pgmq.' || quote_ident(pgqueue._object_name('q_', v_name, '_ready_idx'))))
        into total, ready;
        ready := least(ready, total);
        waiting := total - ready;
    else
        execute format(
            'select count(*), count(*) filter (where m.vt <= clock_timestamp()) from pgmq.%I m', 'q_' || v_name
        ) into total, ready;
        waiting := total - ready;
    end if;
end
$$;

create or replace function pgqueue.decompile(queue_name text)
returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
-- Switches compiling off for a queue and drops its compiled functions, to save the memory that each session pays for
-- them; calls by name go on. compile(queue_name) switches it on again. For the installation's owner.
declare
    v_name text;
    v_function text;
begin
    perform pgqueue._lock_queue(queue_name);
    v_name := pgqueue._existing_name(queue_name);
    insert into pgqueue.policy (queue_name, compiled)
    values (v_name, false)
    on conflict on constraint policy_pkey do update set compiled = false;
    for v_function in
        select p.proname::text
        from pg_proc p
        where p.pronamespace = 'pgqueue'::regnamespace
            and p.proname in (select v_name || '$' || t.suffix from pgqueue._compiled_texts(true, false) t)
    loop
        execute format('drop function pgqueue.%I', v_function);
    end loop;
    perform pgqueue._write_direct_calls();
end
$$;

create or replace function pgqueue.fetch(
    queue_name text,
    vt integer,
    qty integer,
    done bigint[] default null,
    done_ct integer[] default null,
    archive boolean default false
)
returns setof pgmq.message_record
language plpgsql volatile
as $$
-- Deletes or archives the finished messages and leases the next: one call, one commit. With done_ct, the read_ct of each
-- of done, a message that has been delivered again meanwhile is left alone: it is its new reader's.
declare
    v_function text;
    v_place integer;
begin
    -- direct: return query select * from pgqueue."\2$fetch"($2, qty, done, done_ct, archive); return;
    -- others
    v_function := lower(queue_name) || '$fetch';
    if to_regproc('pgqueue.' || quote_ident(v_function)) is not null and strpos(queue_name, '$') = 0 then
        return query execute format('select * from pgqueue.%I($1, $2, $3, $4, $5)', v_function)
        using $2, qty, done, done_ct, archive;
    else
        perform pgqueue._finish(queue_name, done, done_ct, archive);
        return query
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers from pgqueue._claim(queue_name, $2, qty, false) m;
    end if;
end
$$;

create or replace function pgqueue.maintain()
returns table (
    table_name text, partitions_made integer, partitions_dropped integer, rows_moved bigint, problem text
)
language plpgsql volatile
as $$
-- Upkeep, to be called now and then, twice at once if need be. Partitioned tables: rows that outran their partitions get
-- ones of their own, partitions are made ahead, and those past their retention are dropped. What goes wrong with one
-- stands in problem, and stops no other. Tables of another owner are left to that role, since they may run its triggers;
-- the installation's owner is told.
declare
    v_table record;
    -- Milliseconds to wait for a lock. The locks on a table are held to the end, so the next tables may wait only briefly: who
    -- waits for this for deadlock_timeout, a second, may be ended by the server as part of a deadlock.
    v_wait integer := 2000;
begin
    perform 'pgmq.meta'::regclass;
    for v_table in
        select p.table_name, c.relowner::regrole as owner, pg_has_role(c.relowner, 'usage') as ours
        from pgqueue.partitioning p
        join pg_catalog.pg_class c on c.relnamespace = 'pgmq'::regnamespace and c.relname = p.table_name
        join pg_catalog.pg_class o on o.oid = 'pgqueue.partitioning'::regclass
        where pg_has_role(c.relowner, 'usage') or pg_has_role(o.relowner, 'usage')
        order by p.table_name
    loop
        table_name := v_table.table_name;
        if v_table.ours then
            select m.partitions_made, m.partitions_dropped, m.rows_moved, m.problem
            into partitions_made, partitions_dropped, rows_moved, problem
            from pgqueue._maintain(table_name, v_wait) m;
            v_wait := case when problem is null and v_wait >= 250 then 250 else 20 end;
        else
            partitions_made := 0;
            partitions_dropped := 0;
            rows_moved := 0;
            problem := format('belongs to %s, who is to maintain it', v_table.owner);
        end if;
        return next;
    end loop;
end
$$;

create or replace function pgqueue.peek(queue_name text, qty integer default 10, after_msg_id bigint default 0)
returns setof pgmq.message_record
language plpgsql stable parallel safe
as $$
-- Looks at messages in the order of their ids, visible or not, and changes nothing. Page on with the last id seen.
begin
    return query execute format($sql$
        select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
        from pgmq.%1$I m
        where m.msg_id > $1
        order by m.msg_id
        limit $2
    $sql$, 'q_' || pgqueue._existing_name(queue_name))
    using after_msg_id, qty;
end
$$;

create or replace function pgqueue.version(
    out schema_version integer, out package_version text, out pgmq_version text
)
language plpgsql stable parallel safe
as $$
-- What is installed: the highest migration, the package that brought it, and the pgmq whose behaviour it matches.
begin
    perform 'pgmq.meta'::regclass;
    schema_version := 1;
    package_version := '0.1.0';
    pgmq_version := '1.13.1';
end
$$;

-- Rights as in pgmq: the schema is closed, who may use it may call everything, and the rights on a queue's tables decide.
-- Granted in full, since default privileges may be hardened; functions of schema pgmq that were there keep what they have.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'pgmq'
            and p.oid <> all(string_to_array(coalesce(current_setting('pgqueue.known_functions', true), ''), ',')::oid[])
    loop
        execute format('grant execute on function %s to public', v_function);
    end loop;
end
$$;
grant execute on all functions in schema pgqueue to public;
revoke execute on function
    pgqueue._compile(text, boolean),
    pgqueue._compile_all(),
    pgqueue._identify_rows(),
    pgqueue._make_sequences(text, text[]),
    pgqueue.decompile(text)
from public;

-- Triggers that keep each role to its own rows, in place of the row security that older installations have.
do $$
declare
    v_table regclass;
begin
    foreach v_table in array array['pgqueue.partitioning', 'pgqueue.tick']::regclass[] loop
        if not exists (select from pg_catalog.pg_trigger t where t.tgrelid = v_table and t.tgname = 'guard') then
            execute format(
                'create trigger guard before insert or update or delete on %s
                for each row execute function pgqueue._guard_rows()',
                v_table
            );
        end if;
        if (select c.relrowsecurity from pg_catalog.pg_class c where c.oid = v_table) then
            execute format('drop policy if exists owner on %s', v_table);
            execute format('drop policy if exists sender on %s', v_table);
            execute format('alter table %s disable row level security', v_table);
        end if;
    end loop;
end
$$;

select pgqueue._compile_all() as compiled_queues;

-- Waits for each lock briefly, since others queue behind it: a table that is in use for longer is left to the next time.
do $$
begin
    perform pgqueue._identify_rows();
exception
    when lock_not_available then
        raise warning 'a table of schema pgmq is in use, and has no replica identity yet: run this again before you publish it';
end
$$;
-- A fresh installation is at the newest schema version: all migrations are on record.
insert into pgqueue.migration (id, name, checksum, breaking)
values
    (1, 'initial', '99862facd0ed37f3b53cf3db74dbcc4274072dc697d1a4b172766349b6a2bdbf', false)
on conflict (id) do nothing;

commit;
