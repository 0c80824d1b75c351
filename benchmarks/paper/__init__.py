"""The paper, section by section, its errata with their evidence, Table 1 and the workflow of PD-NMF: docs/paper.md."""
