"""Applications of the measured workers."""
