"""From pgmq, as an extension or from SQL, to pgqueue in place, and back.

`forth.adopt` takes over, `back.give_back` gives back. Both find out from the catalogue what is left to do
(survey), so that a run goes on where one that was cut off stopped; a table, `pgqueue.unfinished`, stands
between the change of functions and the end. What must hold at every moment: some set of functions, pgmq's
or ours, works on every queue.

Forth:

1. Indexes first, beside pgmq's (indexes): on a small table in an instant, else concurrently, watched by a
   second session.
2. Columns that older queues lack (columns), a queue a transaction: generic functions of ours need them.
   Functions of pgmq's that say `returning *` are told to name what they return before that.
3. Queue tables that the extension owns, before 1.6, leave it in small lots (swap): 2,000 queues are more
   locks than one transaction may hold. pgmq's create and drop_queue are made to bear with that.
4. One transaction (swap): pgmq.meta locked against makers of queues, the other members released, the
   extension dropped, functions replaced in place where the signature allows (so views, grants and oids
   live), else moved to schema pgqueue under a name with `$retired`: whoever is inside one goes on.
   message_record, whose attributes stand in another order before 1.10, is made anew, and with it users'
   functions that take or give it; metrics_result grows.
5. Once every transaction of that time is over, queues that came late are brought to what the others are;
   then triggers, old indexes and old functions go (finish). Rights on functions are those that were
   (rights).

Back is the same the other way round, with pgmq's SQL (pgmq_sql) or the extension that the server offers
(extension).

No lock that others wait behind is waited for longer than 0.3 s (waiting). What keeps all this from being
done is told before anything is changed (refusals, refusals_back), and what will be done too (plan,
plan_back).
"""
