"""Sections of reports: common sections, and sections for each task."""
