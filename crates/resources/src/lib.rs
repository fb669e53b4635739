//! Every resource kind
