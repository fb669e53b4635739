//! The mcl language: lexer, lossless parser, typed tree, formatter.
