"""Files, settings, progress and input errors."""
