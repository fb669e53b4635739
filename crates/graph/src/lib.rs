//! A directed acyclic graph with stable ids
