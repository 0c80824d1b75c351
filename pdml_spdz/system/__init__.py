"""The operating system: files that are written whole or not at all, processes, memory."""
