"""The sections of a report: those of every run, and those of each task."""
