"""Creates unmasked examples, packs them into rows and stores the rows as records."""
