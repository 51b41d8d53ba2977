-- pgmq's drop_queue while the queue's tables are leaving the extension: what has left it is not released again.
declare
    v_name text := lower(queue_name);
    v_partman text := (
        select quote_ident(n.nspname)
        from pg_catalog.pg_extension e
        join pg_catalog.pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'pg_partman'
    );
    v_member record;
begin
    for v_member in
        select o.type, o.identity
        from pg_catalog.pg_class c
        join pg_catalog.pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
        cross join lateral pg_identify_object(d.classid, d.objid, 0) o
        where c.relnamespace = 'pgmq'::regnamespace
            and c.relname in ('q_' || v_name, 'q_' || v_name || '_msg_id_seq', 'a_' || v_name)
            and o.identity is not null  -- else another has dropped it meanwhile
        -- in the order in which adopt releases them: else the two meet half-way
        order by c.oid
    loop
        begin
            execute format('alter extension pgmq drop %s %s', v_member.type, v_member.identity);
        exception when object_not_in_prerequisite_state or undefined_object then
            null;  -- adopt let go of it, or of all, while this waited for its lock
        end;
    end loop;
    execute format('drop table if exists pgmq.%I', 'q_' || v_name);
    execute format('drop table if exists pgmq.%I', 'a_' || v_name);
    if v_partman is not null then
        execute format('delete from %s.part_config where parent_table in ($1, $2)', v_partman)
        using 'pgmq.q_' || v_name, 'pgmq.a_' || v_name;
    end if;
    delete from pgmq.meta m where m.queue_name = $1;
    return true;
end
