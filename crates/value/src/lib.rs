//! Types and values of the configuration language
