"""What live sessions read: packets and objects one by one, for Python, not for columns."""
