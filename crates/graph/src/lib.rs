//! A directed graph with stable ids, meant to hold no cycle: order, reachability, cycles, difference, dot output.
//!
//! The central type is [`Dag`]: a slab of nodes with values of the caller's type, and at most one edge, also with
//! a value, per ordered pair of nodes. `a -> b` reads "a happens before b". A [`NodeId`] is a small integer that
//! stays the same for as long as its node lives, so callers keep side tables indexed by [`NodeId::index`].
//!
//! ```
//! use mgmt_graph::Dag;
//!
//! let mut dag = Dag::new();
//! let package = dag.add_node("package");
//! let service = dag.add_node("service");
//! dag.set_edge(package, service, "before");
//! assert_eq!(dag.topological_order().unwrap(), [package, service]);
//!
//! dag.set_edge(service, package, "oops");
//! assert_eq!(dag.check_acyclic().unwrap_err().nodes, [package, service, package]);
//! ```
//!
//! The rest of the crate reads a `Dag`:
//! - [`Dag::topological_order`], [`Dag::topological_order_by`] and [`Dag::check_acyclic`]; the error, [`Cycle`], names
//!   one concrete cycle;
//! - [`Dag::has_path`], [`Dag::shortest_path`], [`Dag::ancestors`], [`Dag::descendants`], [`Dag::components`];
//! - [`Reachability`], the closure over chosen nodes, kept up to date while nodes are merged;
//! - [`diff()`], which gives the [`Delta`] between two graphs whose nodes are matched by a key;
//! - [`Dag::dot`], the picture.
//!
//! # Invariants
//!
//! - One edge per ordered pair; its value is stored once. Both ends of an edge are in the graph.
//! - The successors of `a` contain `b` exactly when the predecessors of `b` contain `a`.
//! - Every order this crate produces depends only on the ids, values and edges present, never on the order in
//!   which edges were added, on addresses, or on a hash seed.
//! - Nothing recurses on the size of the graph: a chain of a million nodes needs no more stack than one node.
//!
//! [`Dag::check_invariants`] asserts the structural ones.
//!
//! # Deliberately absent
//!
//! - Adding an edge does not look for cycles, so that building is cheap. Until [`Dag::check_acyclic`] or an order has
//!   been asked for, a `Dag` may well hold a cycle; all functions here terminate and mean what they say on such a
//!   graph. An edge from a node to itself is stored like any other and is the shortest cycle.
//! - Ids carry no generation: the id of a removed node may be given to a node added later. Who keeps ids across
//!   removals must forget them when the node goes.
//! - No clock, file, thread or randomness that could be observed, and no knowledge of what nodes and edges mean.

mod adjacency;
mod bits;
mod dag;
mod delta;
mod dot;
mod order;
mod paths;
mod reachability;
mod snapshot;

pub use dag::{Dag, Neighbours, NodeId};
pub use delta::{Delta, diff};
pub use dot::{DotEdge, DotStyle};
pub use order::Cycle;
pub use reachability::Reachability;
