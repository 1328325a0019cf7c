"""What a run will take on a machine that is not there: memory, operations, seconds."""
