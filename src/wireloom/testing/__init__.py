"""What tests of Wireloom and of programs built on it need: vectors, strategies, mutations."""
