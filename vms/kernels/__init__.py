"""Compiled loops over arrays of codes (numba, cached on disk). They know no SQL, no text and no I/O."""
