//! Derives the schema of a resource kind from its struct.
