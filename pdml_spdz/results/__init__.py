"""A finished run for people: tables, a page with pictures, and what one can do with it. Nothing here sends a word."""
