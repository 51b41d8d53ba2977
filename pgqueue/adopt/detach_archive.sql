-- pgmq's detach_archive while the queues' tables are leaving the extension.
begin
    if exists (
        select from pg_catalog.pg_depend d
        where d.classid = 'pg_class'::regclass
            and d.objid = to_regclass(format('pgmq.%I', 'a_' || lower(queue_name)))
            and d.deptype = 'e'
    ) then
        execute format('alter extension pgmq drop table pgmq.%I', 'a_' || lower(queue_name));
    end if;
end
