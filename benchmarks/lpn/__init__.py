"""What known attacks on LPN cost: decoding, algebraic ones on regular noise, and the locality of a ten-local code."""
