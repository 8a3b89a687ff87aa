"""Instance files, graphs and check-ins in; plans out."""
