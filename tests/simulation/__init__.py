"""The whole system in one thread on a mock clock, hurt at random: see docs/simulation.md."""
