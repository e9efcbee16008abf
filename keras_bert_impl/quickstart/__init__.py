"""`keras-bert quickstart`: the whole path, end to end, on text available on every machine."""
