"""The commands, one module per noun; ``app`` wires them."""
