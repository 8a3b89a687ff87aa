"""Operations of an operator, one module per noun: typed in, typed out, no printing."""
