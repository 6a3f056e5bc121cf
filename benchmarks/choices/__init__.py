"""The figures behind the decisions in docs/adr."""
