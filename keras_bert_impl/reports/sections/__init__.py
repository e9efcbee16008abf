"""The sections of a report: common sections, and sections for each task."""
