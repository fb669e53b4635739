//! The engine: a pure scheduler core and its driver
