//! The codes of all diagnostics, with what `mgmt explain` says about each.

pub(crate) const TOO_LARGE: &str = "Y0001";
pub(crate) const NOT_TEXT: &str = "Y0002";
pub(crate) const SYNTAX: &str = "Y0003";
pub(crate) const TOO_DEEP: &str = "Y0004";
pub(crate) const TOO_MANY_ALIASES: &str = "Y0005";
pub(crate) const DOCUMENTS: &str = "Y0006";
pub(crate) const NOT_A_MAP: &str = "Y0007";
pub(crate) const DUPLICATE_KEY: &str = "Y0008";
pub(crate) const BAD_MERGE: &str = "Y0009";
pub(crate) const BAD_KEY: &str = "Y0010";
pub(crate) const UNKNOWN_TAG: &str = "Y0011";
pub(crate) const SECRET: &str = "Y0012";
pub(crate) const NO_GRAPH_NAME: &str = "Y0101";
pub(crate) const UNKNOWN_SECTION: &str = "Y0102";
pub(crate) const WRONG_SHAPE: &str = "Y0103";
pub(crate) const OLD_SPELLING: &str = "Y0104";
pub(crate) const REMOTE: &str = "Y0105";
pub(crate) const UNKNOWN_KIND: &str = "Y0201";
pub(crate) const NOT_BUILT: &str = "Y0202";
pub(crate) const BAD_NAME: &str = "Y0203";
pub(crate) const UNKNOWN_PARAMETER: &str = "Y0204";
pub(crate) const REMOVED_PARAMETER: &str = "Y0205";
pub(crate) const WRONG_TYPE: &str = "Y0206";
pub(crate) const OUT_OF_RANGE: &str = "Y0207";
pub(crate) const INVALID: &str = "Y0208";
pub(crate) const SAME_RESOURCE: &str = "Y0209";
pub(crate) const CONFLICT: &str = "Y0210";
pub(crate) const SET_TWICE: &str = "Y0211";
pub(crate) const UNKNOWN_META: &str = "Y0301";
pub(crate) const INVALID_META: &str = "Y0302";
pub(crate) const BAD_END: &str = "Y0401";
pub(crate) const UNKNOWN_END: &str = "Y0402";
pub(crate) const REPEATED_EDGE: &str = "Y0403";
pub(crate) const SELF_EDGE: &str = "Y0404";
pub(crate) const CYCLE: &str = "Y0405";
pub(crate) const TOO_MANY_EDGES: &str = "Y0406";
pub(crate) const UNKNOWN_RECEIVE: &str = "Y0501";
pub(crate) const BAD_RECEIVE: &str = "Y0502";
pub(crate) const NOT_SENT: &str = "Y0503";
pub(crate) const RECEIVE_TYPE: &str = "Y0504";
pub(crate) const HIDDEN_SENDER: &str = "Y0505";
pub(crate) const MORE: &str = "Y0999";

/// Every code with its title and an explanation.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        TOO_LARGE,
        "the file is too large",
        "A graph file may be 64 MiB long. Larger ones are almost always a mistake, such as a log or an image \
         given as a graph. Split the graph, or write it in the configuration language, where a loop replaces \
         repetition.",
    ),
    (
        NOT_TEXT,
        "the file is not UTF-8 text",
        "A graph file is UTF-8 text without NUL bytes. Binary content of a managed file belongs in a file of \
         its own that the resource names as its source, or in a `!!binary` scalar in base64.",
    ),
    (
        SYNTAX,
        "the file is not YAML",
        "The text could not be read as YAML, so nothing in the file was looked at. Frequent causes are a tab \
         in the indentation, a `: ` inside text without quotes, text without quotes that starts with one of @ \
         ` % & * ! | > and a bracket or quote that is never closed.",
    ),
    (
        TOO_DEEP,
        "the nesting is too deep",
        "Lists and maps may be nested 64 deep, counting what aliases bring in. No graph needs more than about \
         ten.",
    ),
    (
        TOO_MANY_ALIASES,
        "the aliases expand to too much",
        "An alias (`*name`) stands for everything that its anchor (`&name`) holds. Aliases of aliases \
         multiply, and a small file could fill the memory. The expansion of all aliases together is limited \
         to 32 MiB, and an anchor may not contain an alias of itself.",
    ),
    (
        DOCUMENTS,
        "there is more than one document",
        "A graph file holds one YAML document. The lines `---` and `...` separate documents; put the second \
         one into a file of its own.",
    ),
    (
        NOT_A_MAP,
        "the document is not a map",
        "A graph is a map with the keys `graph`, `resources` and `edges` at the top level.",
    ),
    (
        DUPLICATE_KEY,
        "a key is given twice",
        "When a map has the same key twice, the last one counts and the others are ignored.",
    ),
    (
        BAD_MERGE,
        "a merge key has no map to merge",
        "`<<` takes the entries of another map over, those that are not given beside it. Its value is an \
         alias of a map, a map, or a list of those.",
    ),
    (
        BAD_KEY,
        "a key is not text",
        "Every key of a graph file is a single word or text, never a list or a map.",
    ),
    (
        UNKNOWN_TAG,
        "a tag is not known",
        "Tags say what type a value has: `!!str`, `!!int`, `!!float`, `!!bool`, `!!null`, `!!binary`, `!!map` \
         and `!!seq`. Any other tag is ignored.",
    ),
    (
        SECRET,
        "a secret was left out",
        "Where a graph is printed, a value that nobody should see is left out, and the tag `!secret` stands in its place. Such a file \
         shows a graph and cannot be run until the values are filled in.",
    ),
    (
        NO_GRAPH_NAME,
        "the graph has no name",
        "The top level needs a key `graph` with the name of the graph, which may be any text that is not \
         empty.",
    ),
    (
        UNKNOWN_SECTION,
        "an unknown key at the top level",
        "The keys at the top level are `graph`, `comment`, `resources`, `edges`, `collect` and `remote`. Any \
         other key is ignored, or refused when unknown keys are.",
    ),
    (
        WRONG_SHAPE,
        "a section has the wrong shape",
        "`resources` is a map from kinds to lists of resources, `edges` and `collect` are lists, and every \
         resource, edge and collect entry is a map.",
    ),
    (
        OLD_SPELLING,
        "an old spelling",
        "The first versions wrote `types` where `resources` is now, and `type` in the ends of an edge where \
         `kind` is now. Both are still read.",
    ),
    (
        REMOTE,
        "`remote` only counts for `run --remote`",
        "The key `remote` names the host to run the graph on over ssh, when the file is given to `mgmt run --remote`. \
         It is ignored otherwise.",
    ),
    (
        UNKNOWN_KIND,
        "an unknown kind of resource",
        "The kind is not one of those that this program has. Kinds are written in lower case.",
    ),
    (
        NOT_BUILT,
        "a kind that is not built yet",
        "The kind exists in other versions of the program and is not part of this one yet.",
    ),
    (
        BAD_NAME,
        "a resource needs a name",
        "Every resource has a `name` that is not empty. A name that starts with `$` usually is a variable \
         that was not expanded, and needs `meta: {dollar: true}` if it is meant.",
    ),
    (
        UNKNOWN_PARAMETER,
        "an unknown parameter",
        "The kind has no parameter of this name. It is ignored, or refused when unknown keys are.",
    ),
    (
        REMOVED_PARAMETER,
        "a parameter that is gone",
        "The kind had this parameter once. Where a metaparameter has taken its place, its value is taken \
         over: `timeout` of `exec`, in seconds, becomes the metaparameter `timeout`, in milliseconds, and \
         `pollint` becomes `poll`.",
    ),
    (
        WRONG_TYPE,
        "a value of the wrong type",
        "The parameter holds another type. Values without quotes are read by the type of the parameter: `yes` \
         is text for a `str` and a truth value for a `bool`; `0644` is text for a `str` and an octal number \
         for an `int`. A value in quotes is always text.",
    ),
    (OUT_OF_RANGE, "a number does not fit", "The number is too small or too large for the parameter."),
    (
        INVALID,
        "a parameter that cannot be",
        "The kind refuses the parameters: a value is not one of those allowed, or two of them contradict each \
         other.",
    ),
    (
        SAME_RESOURCE,
        "a resource is declared twice",
        "Both declarations say the same, so the second one is ignored; or there is one resource that fulfils both, \
         like the newest version of a package that is also to be installed, and that is what is declared.",
    ),
    (
        CONFLICT,
        "two declarations of a resource disagree",
        "A kind and a name make one resource. Give one of them another name, or make them the same. Resources \
         with `meta: {hidden: true}` may share a name.",
    ),
    (
        SET_TWICE,
        "a parameter is set twice under two names",
        "Some parameters have an old name that is still accepted. The last one counts.",
    ),
    (
        UNKNOWN_META,
        "an unknown metaparameter",
        "The keys of `meta` are noop, retry, retryreset, delay, timeout, poll, limit, burst, reset, sema, \
         rewatch, realize, dollar, hidden, export, reverse, autoedge, autogroup and window.",
    ),
    (
        INVALID_META,
        "a metaparameter that cannot be",
        "A metaparameter has a value that makes no sense, or that needs another one beside it.",
    ),
    (BAD_END, "an edge needs two ends", "An edge has `from` and `to`, each a map with `kind` and `name`."),
    (
        UNKNOWN_END,
        "there is no such resource",
        "An edge or a `recv` names a resource that is not in this file. A resource whose name starts with \
         `@@` is exported and only part of the graph when a `collect` entry has its kind.",
    ),
    (
        REPEATED_EDGE,
        "an edge is given twice",
        "There is one edge between two resources. Its notification is on if any of the entries says so.",
    ),
    (SELF_EDGE, "a resource can't come before itself", "The two ends of the edge are the same resource."),
    (
        CYCLE,
        "the edges go in a circle",
        "Each resource waits for those before it, so a circle would wait for ever. One of the edges that are \
         shown has to go.",
    ),
    (
        TOO_MANY_EDGES,
        "too many edges",
        "Edges to a name apply to every hidden resource of that name, so a few lines can stand for millions \
         of edges. The limit is one million.",
    ),
    (
        UNKNOWN_RECEIVE,
        "an unknown parameter to receive",
        "The key in `recv` has to be a parameter of the resource.",
    ),
    (
        BAD_RECEIVE,
        "an entry of `recv` is incomplete",
        "An entry of `recv` is `parameter: {kind: …, name: …, key: …}`: the resource that sends, and which of \
         the values that it sends.",
    ),
    (NOT_SENT, "the value is not sent", "The kind does not send a value of that name."),
    (
        RECEIVE_TYPE,
        "the sent value has another type",
        "The value that is sent and the parameter that receives it have to be of one type.",
    ),
    (
        HIDDEN_SENDER,
        "a hidden resource sends nothing",
        "A hidden resource never runs, so nothing can be received from it.",
    ),
    (
        MORE,
        "there is more",
        "Only the first hundred errors and the first hundred warnings of a file are listed.",
    ),
];

#[cfg(test)]
mod tests {
    use super::CODES;

    #[test]
    fn codes_are_unique_ascending_and_explained() {
        assert!(CODES.is_sorted_by(|a, b| a.0 < b.0));
        for (code, title, explanation) in CODES {
            assert!(code.len() == 5 && code.starts_with('Y'), "{code}");
            assert!(!title.is_empty() && !title.ends_with('.'), "{code}");
            assert!(explanation.ends_with('.') && !explanation.contains("  "), "{code}");
        }
    }
}
