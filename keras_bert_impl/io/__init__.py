"""Files, addresses and errors: everything that reads bytes of others or writes ours."""
