"""What algorithms receive as arguments: `sec_sum` and `normed_sum`."""
