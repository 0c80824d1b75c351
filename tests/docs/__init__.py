"""The pages: what they print runs, what they link to is there, and the site builds without a warning."""
