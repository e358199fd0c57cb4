//! Files as resources.
