"""Worker processes as seen from outside: their status, their memory, and why one ended."""
