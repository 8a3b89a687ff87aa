"""What people and programs touch: thin; parse, call, show."""
