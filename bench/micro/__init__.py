"""Hand-written code for single queries: how fast the machine can be, to compare the engine with."""
