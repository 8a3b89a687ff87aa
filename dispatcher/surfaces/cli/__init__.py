"""The commands. Each module holds one noun; ``app`` wires them."""
