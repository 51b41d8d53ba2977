-- pgmq's detach_archive while the queues' tables are leaving the extension: what has left it is not released again.
begin
    if exists (
        select from pg_catalog.pg_depend d
        where d.classid = 'pg_class'::regclass
            and d.objid = to_regclass(format('pgmq.%I', 'a_' || lower(queue_name)))
            and d.deptype = 'e'
    ) then
        execute format('alter extension pgmq drop table pgmq.%I', 'a_' || lower(queue_name));
    end if;
exception when object_not_in_prerequisite_state or undefined_object then
    null;  -- adopt let go of it, or of all, while this waited for its lock
end
