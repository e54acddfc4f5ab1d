"""Key-value stores: the protocol, the embedded store, HBase."""
