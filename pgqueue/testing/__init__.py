"""The pytest plugin: clean queues on a private Postgres, and time that passes when a test says so."""
