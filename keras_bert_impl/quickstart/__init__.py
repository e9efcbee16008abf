"""`keras-bert quickstart`: an end-to-end example with text that is on every machine."""
