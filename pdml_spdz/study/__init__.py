"""The study: everything the parties must agree on before any of them starts."""
