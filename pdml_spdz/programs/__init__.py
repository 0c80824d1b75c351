"""The programs that run on secret shares: templates, bit budget, rendering."""
