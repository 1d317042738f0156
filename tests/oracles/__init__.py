"""Second opinions that only tests, fuzzers and benchmarks ask: what the tables must hold."""
