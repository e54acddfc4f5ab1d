"""SQL to a maintenance plan: text -> DataFusion -> Substrait -> MaintenancePlan -> rounds."""
