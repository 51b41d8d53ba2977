-- The round in psql: psql -qAtX -v ON_ERROR_STOP=1 -f round.sql
select pgmq.create('shop') \g /dev/null
select pgmq.send('shop', '{"to": "Łukasz", "n": 1}') as first \gset
select array_agg(id) as rest from pgmq.send_batch('shop', array['{"n": 2}', '{"n": 3}']::jsonb[]) as id \gset
create temp table taken as select msg_id, message from pgmq.read('shop', 30, 2);
select pgmq.archive('shop', 1) as archived \gset
select pgmq.delete('shop', 2) as deleted \gset
select msg_id as popped from pgmq.pop('shop') \gset
select json_build_object(
    'sent', :first || :'rest'::bigint[],
    'read', (select json_agg(msg_id order by msg_id) from taken),
    'to', (select message ->> 'to' from taken where msg_id = 1),
    'archived', :'archived'::boolean,
    'deleted', :'deleted'::boolean,
    'popped', :popped);
