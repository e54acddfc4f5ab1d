"""Operations: changes in, changes out, each over its own state. One file an operation."""
