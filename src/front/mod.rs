//! Front ends: consumers of events.
