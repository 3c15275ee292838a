"""A campaign of faults: kills at random moments, damaged files, malformed inputs (`make faults`)."""
