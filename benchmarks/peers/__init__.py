"""The same packets in other tools, written the way each tool's own examples are.

Each module has one `CASE`: messages, our functions and those of the peers, each with a `view` that
gives the values in one form, so that the benchmark can check that all read the same before it
measures anything. The peers read as little as possible (numbers instead of enums, no checks), which
favours them.
"""
