"""Made from proto/vms/v1 by `make proto`; not to be edited."""
