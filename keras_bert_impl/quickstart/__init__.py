"""`keras-bert quickstart`: an end-to-end example on text from the installed packages."""
