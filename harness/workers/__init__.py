"""Worker processes, watched from outside: what each one does, its memory, why one ended."""
