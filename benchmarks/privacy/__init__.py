"""The paper's privacy experiments: KSDP of PD-NMF and PD-SVD by party size, DP baselines, attacks on recorded runs."""
