"""What parties do with a common V, mean or T, each on its own rows; every function says what is sent, if anything."""
