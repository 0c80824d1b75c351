"""The paper's algorithms; they receive `sec_sum` and `normed_sum` and know no engine."""
