"""What an operator can do, one module a noun: typed in, typed out, no printing."""
