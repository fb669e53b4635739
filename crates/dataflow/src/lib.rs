//! Self-adjusting computation with cutoff: values computed from other values, kept up to date with work proportional to the change.
//!
//! The central type is [`Graph`]. A node is a constant, a source that somebody sets, a computation over other nodes, or
//! a [switch](Graph::switch): a place where another part of the graph is attached that depends on a value, such as the
//! branch of a condition, the body of a function value, or a copy of a loop's body for each element. What a switch
//! attaches lives in a [scope](ScopeId) of its own and goes when the switch attaches something else.
//!
//! After some sources were [set](Graph::set), [`Graph::settle`] brings everything up to date. Each node has a height
//! above all that it reads; nodes are computed in the order of their heights, so each at most once per settling, and
//! never with a mixture of old and new inputs. A node that comes out equal to what it was stops the wave.
//!
//! A node that cannot be computed holds a failure in the place of its value. What reads it fails in the same way, up to
//! a [guard](Graph::guard), which puts something else there for as long as the failure lasts. A source that has not been
//! set makes everything that reads it undefined.
//!
//! Nodes that are marked as [outputs](Graph::mark_output) are what the outside looks at: settling tells which of them
//! changed, appeared or went.
//!
//! Invariants
//! - Pure: no clock, no thread, no I/O. Time is the number of the settling.
//! - The height of a node is greater than those of its inputs, and of the switch that owns its scope.
//! - A scope is gone when its switch is gone or has attached something else, with everything in it. Nothing else keeps
//!   a node; a reference to one that is gone reads as undefined.
//! - After settling, every node has the value that computing everything from scratch would give.
//!
//! Deliberately absent: any knowledge of a language, of functions or of types. Circles cannot be built: a node reads
//! nodes that were there before it, and a switch reads what it attached.

mod graph;
mod queue;

pub use graph::{Attach, Catch, Compute, Delta, Graph, NodeId, ScopeId, State};
