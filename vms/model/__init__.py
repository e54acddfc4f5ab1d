"""Plain values: types, tables, change batches, encodings. No I/O, no clock, no thread."""
