//! Permanent storage: locks, free space, flushing. To be written.
