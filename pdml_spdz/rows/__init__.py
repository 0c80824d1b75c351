"""A party's rows: reading them, their names, what is suspicious about them."""
