//! The codes of all diagnostics, with what `mgmt explain` says about each.

pub(crate) const PUPPET_ERROR: &str = "P0001";
pub(crate) const PUPPET_WARNING: &str = "P0002";
pub(crate) const NO_CATALOGUE: &str = "P0003";
pub(crate) const BROKEN: &str = "P0101";
pub(crate) const CYCLE: &str = "P0102";
pub(crate) const THROUGH_PUPPET: &str = "P0201";
pub(crate) const REFUSED: &str = "P0202";
pub(crate) const SAME: &str = "P0203";
pub(crate) const LOSS: &str = "P0204";
pub(crate) const EXPORTED: &str = "P0205";
pub(crate) const NOT_PURGED: &str = "P0206";
pub(crate) const CONFLICT: &str = "P0207";
pub(crate) const UNMATCHED: &str = "P0301";
pub(crate) const NOT_EMPTY: &str = "P0302";
pub(crate) const NOT_PUPPET: &str = "P0303";
pub(crate) const REMOVES: &str = "P0304";

/// Every code with its title and its explanation.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        PUPPET_ERROR,
        "Puppet does not compile it",
        "The message is Puppet's own. Nothing is run; if something runs already, it goes on.",
    ),
    (PUPPET_WARNING, "Puppet warns", "The message is Puppet's own. With `--strict`, it is an error."),
    (
        NO_CATALOGUE,
        "the catalogue cannot be read",
        "What Puppet has compiled is not in the form that is expected. Versions from 6 on are known; 7 and 8 are tested.",
    ),
    (
        BROKEN,
        "a relationship leads nowhere",
        "A parameter such as `require` names a resource that is not in the catalogue: it may be virtual and not realised, or \
         its class may not be included.",
    ),
    (
        CYCLE,
        "resources wait for each other",
        "Each of the resources has to come before the next, and the last before the first. A class stands in the list with its \
         beginning and its end: what requires a class comes after everything in it.",
    ),
    (
        THROUGH_PUPPET,
        "a resource is left to Puppet",
        "Something about the resource has no counterpart here, so Puppet itself brings it about, in a process that is kept for \
         that. It has no events: it is looked at once for each run interval. The result is the same. With `--strict`, this is an \
         error.",
    ),
    (
        REFUSED,
        "a resource can be had neither here nor from Puppet",
        "The resource cannot be one of ours, and cannot be handed to Puppet either. The message tells what is in the way.",
    ),
    (
        SAME,
        "two resources are the same one",
        "Two resources of the manifest become one and the same here: two packages with one name, for example, that differ in \
         their titles. Or a program and a manifest that are one graph both have the resource.",
    ),
    (
        LOSS,
        "a resource is not quite the same",
        "The resource is one of ours and ends up in the same state, but something around it is different: a copy of what is \
         overwritten is not kept in a file bucket, for example. The message tells which parameter asks for it. With `--strict`, this is \
         an error.",
    ),
    (
        EXPORTED,
        "an exported resource is left out",
        "Resources that are exported (`@@file { … }`) and collected (`File <<| |>>`) go from host to host through a store that a Puppet \
         server has. This host compiles alone, so nothing is exported, and nothing is collected. Have the server compile, with `mgmt run \
         puppet agent`; or put what hosts share into a program, with the metaparameter `export` and `collect`, which `langpuppet` joins \
         with the manifest. With `--strict`, this is an error.",
    ),
    (
        NOT_PURGED,
        "a directory is not purged",
        "Purging removes what no resource manages. A resource of a type that comes from a module may make files of which only its Ruby \
         knows: it names no path although its Ruby writes files, names the directory itself or one above it, or says only when it is applied \
         what it generates. So nothing is removed here. The directory is managed otherwise. Puppet does not know of those files either, and \
         would remove them at every look; with `--puppet-only`, it does. With `--strict`, this is an error.",
    ),
    (
        CONFLICT,
        "two resources write one file",
        "One resource has the whole content of a file, another one edits a line, a setting or an entry in it, or is of a type of a module and \
         names the file. Each would undo what the other one does, for ever. Put the line into the content, or have the file without `content` and `source`. With `replace => false` the two \
         agree: the content is only for a file that is not there.",
    ),
    (
        UNMATCHED,
        "a point where program and manifest meet is only on one side",
        "Where a program and a manifest are one graph, `noop \"puppet_NAME\"` of the program and the empty class `mgmt_NAME` of the \
         manifest are the same point. One of the two is missing, is spelt otherwise, or is not included. With \
         `--allow-unmatched` this is a warning, and what has no counterpart stays as it is.",
    ),
    (
        NOT_EMPTY,
        "a class where program and manifest meet is not empty",
        "The beginning and the end of the class become one point, so nothing can happen between them. Move what is in the class to \
         another one, and order the two with `->`.",
    ),
    (
        NOT_PUPPET,
        "the other graph is not one of Puppet",
        "Every catalogue has the stage `main`. A graph without it cannot be joined with a program.",
    ),
    (
        REMOVES,
        "the manifest would remove what the program makes",
        "A resource of the manifest removes everything of a type that nobody manages, and Puppet cannot be told what the program has          of it: entries of crontabs and keys of ssh are known to Puppet by a name that only Puppet writes. Purge in the program, or          move what it manages to the manifest.",
    ),
];
