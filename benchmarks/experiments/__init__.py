"""The paper's experiments on the official data sets: what a party gains by joining, and where PD-NMF should start."""
