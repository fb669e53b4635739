//! Diagnostics: errors and warnings about texts, and their renderers.
//!
//! The central type is [`Diagnostic`]: severity, code, message, labelled spans, hints. Every front-end builds it directly, as plain
//! data: `lang` and `yaml` with byte spans ([`Span`]) into a [`SourceMap`], `puppet` with lines and columns, which are resolved to
//! spans when the files are read ([`Diagnostic::map_spans`]). How a diagnostic looks is decided here, in four renderers (the
//! feature `render`):
//!
//! - [`Renderer::human`]: the source lines with the spans underlined, for people;
//! - [`Renderer::short`]: `file:line:column: severity[code]: message`, for editors;
//! - [`Renderer::json`]: one JSON object per line, for programs;
//! - [`Sarif`]: a SARIF 2.1.0 document, for forges.
//!
//! # Invariants
//!
//! - No text from outside can move the cursor, change a colour, begin a line of its own or turn the direction of writing: control
//!   characters and their like are escaped in every form ([`escape()`], [`json_line`]). This is the only escaping rule; log lines use it, too.
//! - Any span renders: one outside of its text, or inside a character, is moved to the nearest place that exists.
//! - The line starts of a text are found once ([`Source`]), however many diagnostics it has, and only the lines around the spans are
//!   rendered: the cost of a diagnostic does not depend on the length of its file.
//! - Meaning is never carried by colour alone.
//!
//! # Deliberately absent
//!
//! - Output. `telemetry` and the command line write what is rendered here.
//! - The lists of codes: each front-end has its own, with explanations.

mod diagnostic;
mod escape;
#[cfg(feature = "render")]
mod json;
#[cfg(feature = "render")]
mod render;
#[cfg(feature = "render")]
mod sarif;
#[cfg(feature = "render")]
mod snippet;
mod source;

pub use diagnostic::{Diagnostic, Label, Severity};
pub use escape::{Escaped, escape};
#[cfg(feature = "render")]
pub use json::json_line;
#[cfg(feature = "render")]
pub use render::Renderer;
#[cfg(feature = "render")]
pub use sarif::Sarif;
pub use source::{FileId, Source, SourceMap, Span};
