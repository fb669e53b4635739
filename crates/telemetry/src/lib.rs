//! Logs and diagnostics
