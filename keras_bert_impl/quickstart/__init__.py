"""`keras-bert quickstart`: the main job, end to end, on text that every machine has."""
