"""Words with labels: readers of annotations, and entities in label sequences."""
