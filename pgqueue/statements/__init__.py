"""Each call of pgmq's and pgqueue's SQL as a value."""
