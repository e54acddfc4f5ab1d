"""The core: decides, and does nothing else. No I/O, no clock, no thread; events in, effects out."""
