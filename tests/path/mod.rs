//! How paths and URIs are read.

pub(crate) mod windows_names;
