"""What tests of Wireloom and of programs built on it need: golden vectors, chunkers, strategies, mutations."""
