"""Topic bindings."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, error
from pgqueue.doctor.survey import Survey
from pgqueue.names import counted
from pgqueue.sqltext import literal

_OF_NOBODY = """
select b.queue_name, count(*) as bindings
from pgmq.topic_bindings b
where not exists (select from pgmq.meta m where m.queue_name = b.queue_name)
group by b.queue_name
order by b.queue_name
"""


def binding_of_nobody(survey: Survey) -> Iterator[Finding]:
    """Bound to a queue that is not in the list."""
    if survey.has("topic_bindings") and survey.has("meta"):
        for row in survey.look.rows(_OF_NOBODY):
            name = literal(row.queue_name)
            yield error(
                f"{counted(row.bindings, 'topic binding')} to {name}, which is no queue",
                "send_topic() fails for every key that they match, for the other queues too",
                f"delete from pgmq.topic_bindings where queue_name = {name};",
            )
