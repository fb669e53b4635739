//! State that is shared: the local store
