"""The offline phase: material that depends on no data, made ahead of a run or during it, used once."""
