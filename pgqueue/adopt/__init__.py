"""From pgmq, as an extension or from SQL, to pgqueue in place, and back."""
