//! The index of what can be wrong with a program.
//!
//! A code is for ever: its meaning may be told better, but a number is never used again for something else.
//! `M0001` to `M0199` belong to the text itself and live in the crate `syntax`.

use crate::diagnostic::Class;

/// Declares the codes: name, number, class, title, explanation.
macro_rules! codes {
    ($( $name:ident $id:literal $class:ident $title:literal $explanation:literal )*) => {
        /// A rule of the language beyond its grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Code {
            $( #[doc = $title] $name, )*
        }

        impl Code {
            pub(crate) fn id(self) -> &'static str {
                match self {
                    $( Code::$name => $id, )*
                }
            }

            pub(crate) fn class(self) -> Class {
                match self {
                    $( Code::$name => Class::$class, )*
                }
            }
        }

        /// Every code of this crate with its title and its explanation.
        pub const CODES: &[(&str, &str, &str)] = &[ $( ($id, $title, $explanation), )* ];
    };
}

codes! {
    // How constructs are put together.
    DuplicateField "M0201" Structure "a parameter is set twice in one resource"
        "A resource can set each of its parameters once, also when both have conditions."
    DuplicateMeta "M0202" Structure "a metaparameter is set twice in one resource"
        "A resource can set each of its metaparameters once."
    UnknownMeta "M0203" Structure "there is no such metaparameter"
        "The word after `Meta:` must be one of the metaparameters of the engine."
    UnknownEdgeWord "M0204" Structure "there is no such edge"
        "A capitalised word in a resource is `Before`, `Depend`, `Notify`, `Listen` or `Meta`."
    DuplicateMapKey "M0205" Structure "a key stands twice in one map"
        "Each key of a map can be there once."
    MixedMapKeys "M0206" Structure "the keys of a map have different types"
        "All keys of a map have one type."
    UnhashableKey "M0207" Structure "this cannot be the key of a map"
        "A key is a bool, a str, an int, a float, or a struct of these."
    DuplicateStructField "M0208" Structure "a field stands twice in one struct"
        "Each field of a struct can be there once."
    ImportInLoop "M0209" Structure "an import stands in a loop"
        "Imports belong outside of loops."
    BadVariableName "M0210" Structure "a variable has a name that cannot be read"
        "A name that is read has no two underscores in a row."
    DeclaredLiteral "M0211" Parse "a literal is not of its declared type"
        "The type between the variable and the equals sign must be the type of the value."
    DuplicateParameter "M0212" Structure "two parameters have the same name"
        "The parameters of a function or a class have different names."
    DuplicateClass "M0213" Interpolation "a class is defined twice"
        "A block can define a class of one name once."

    // Names.
    UnknownVariable "M0301" Scope "there is no such variable here"
        "A variable must be defined in the block where it is read, or in one around it."
    UnknownFunction "M0302" Scope "there is no such function here"
        "A function must be built in, imported, or defined in the block or one around it."
    UnknownClass "M0303" Scope "there is no such class here"
        "A class must be imported, or defined in the block or one around it."
    ClassArguments "M0304" Scope "a class is given the wrong number of arguments"
        "An include gives each parameter of the class one argument."
    DuplicateDefinition "M0305" Scope "a name is defined twice in one block"
        "Within one block a variable, a function, a class or an alias is defined once."
    Recursion "M0306" Scope "a definition needs itself"
        "Definitions cannot go in circles."
    DuplicateImport "M0307" Scope "a module is imported twice in one block"
        "One import of a module is enough for a block."
    DuplicateAlias "M0308" Scope "an alias is used twice in one block"
        "Imports and includes of one block have different aliases."

    // Modules.
    BadImportName "M0401" Scope "this cannot be imported"
        "What stands between the quotes of an import is the name of a module, a file, a directory or an address."
    UnknownModule "M0402" Scope "there is no such module"
        "A plain name means a module that comes with the program."
    ImportNotFound "M0403" Scope "an imported file is not there"
        "The path is relative to the directory of the file that imports it."
    ModuleNotDownloaded "M0404" Scope "a remote module has not been downloaded"
        "Modules from other places are downloaded before the program runs, by `mgmt get`."
    RecursiveImport "M0405" Scope "a module imports itself"
        "Imports cannot go in circles."
    EffectInModule "M0406" Scope "a module does something by itself"
        "A file that is imported can hold imports, binds, functions and classes; everything else goes into a class."
    BadMetadata "M0407" Scope "the metadata of a module is wrong"
        "The file `metadata.yaml` of a module says where its parts are."
    UnreadableFile "M0408" Scope "a file cannot be read"
        "The file is there and cannot be read."
    LockMismatch "M0409" Scope "a downloaded module is not the one that was locked"
        "The lock file records the commit and the content of each downloaded module."

    // Types.
    Mismatch "M0501" Type "a value of one type stands where another is wanted"
        "There are no conversions that happen by themselves."
    ArgumentCount "M0502" Type "a function is given the wrong number of arguments"
        "A call gives each parameter of the function one argument."
    Ambiguous "M0503" Type "the type of a value cannot be known"
        "Nothing in the program says of which type this is."
    InfiniteType "M0504" Type "a type contains itself"
        "A function cannot be its own argument."
    UnknownStructField "M0505" Type "a struct has no such field"
        "The type of a struct lists its fields, and no other can be read."
    NotAContainer "M0506" Type "this is neither a list nor a map"
        "Brackets look into lists and maps."
    NotAStruct "M0507" Type "this is not a struct"
        "An arrow looks into structs."
    OperatorType "M0508" Type "an operator cannot work on values of this type"
        "Each operator works on some types."
    NotCallable "M0509" Type "this is not a function"
        "Only functions can be called."
    BadFormat "M0510" Type "a format has an unknown verb"
        "A format knows %t, %s, %q, %d, %f, %v, %T and %%."
    FormatCount "M0511" Type "a format and its arguments do not match in number"
        "Each verb of a format takes one argument."
    NotAccepted "M0512" Type "a function does not work on values of this type"
        "The function works on some types."
    BadTypeText "M0513" Type "the text of a type is wrong"
        "The text must be a type as it is written in the language."
    UnhashableType "M0514" Type "the keys of a map have a type that keys cannot have"
        "A key is a bool, a str, an int, a float, or a struct of these."

    // Resources.
    UnknownKind "M0601" Type "there is no such kind of resource"
        "The word before the name of a resource is its kind."
    UnknownField "M0602" Type "a kind has no such parameter"
        "Each kind has its own parameters."
    FieldType "M0603" Type "a parameter has the wrong type"
        "Each parameter of a kind has one type."
    MetaType "M0604" Type "a metaparameter has the wrong type"
        "Each metaparameter has one type."
    OneHalf "M0605" Type "an edge has one end only"
        "An edge goes from one resource to another."
    CannotSend "M0606" Type "a kind that sends nothing is asked to send"
        "Some kinds send values."
    CannotReceive "M0607" Type "a kind cannot receive"
        "Some kinds take values that others send."
    UnknownSent "M0608" Type "a kind does not send such a value"
        "Each kind that sends has names for its values."
    SentType "M0609" Type "a value that is sent has not the type of the parameter that receives it"
        "What is sent must be of the type of the parameter."
    DuplicateMetaStruct "M0610" Resource "metaparameters are set in two ways"
        "The struct sets all metaparameters, so none can be set beside it."
    BadName "M0611" Resource "a resource cannot have this name"
        "A name is not empty and does not start with a dollar."
    OutOfRange "M0612" Resource "a number does not fit"
        "The parameter takes a smaller range of numbers."
    ConflictingResource "M0613" Resource "a resource is declared twice, and not in the same way"
        "Two declarations of one resource must say the same."

    BadResource "M0614" Resource "a resource cannot be like this"
        "The kind refuses the parameters."
    MissingResource "M0615" Resource "an edge leads to a resource that is not there"
        "Both ends of an edge must be declared."
    HiddenSender "M0616" Resource "a hidden resource is asked to send"
        "A hidden resource never runs, so it has nothing to send."
    DuplicateReceive "M0617" Resource "a parameter is received twice"
        "A parameter takes its value from one resource."
    Circle "M0618" Resource "the edges go in a circle"
        "The order of resources must have a start."

    // Values.
    Failed "M0701" Value "a function failed"
        "The function has no value for these arguments."
    Panicked "M0702" Value "the program panics"
        "The program itself has asked to stop."

    // What is probably not meant.
    UnusedImport "M0801" Lint "an import is not used"
        "Nothing of the module is used."
    UnusedBind "M0802" Lint "a variable is not used"
        "The variable is never read, so its value is never made."
    UnusedFunction "M0803" Lint "a function is not used"
        "The function is never called."
    UnusedClass "M0804" Lint "a class is not included"
        "The class is never included, so nothing in it happens."
    UnusedParameter "M0805" Lint "a parameter is not used"
        "The parameter is never read."
    Shadowing "M0806" Lint "a definition hides another"
        "The name means something else outside of the block."
    DuplicateResource "M0807" Lint "a resource is declared twice"
        "The second declaration says the same as the first and changes nothing."
    SelfComparison "M0808" Lint "a value is compared with itself"
        "The result is always the same."
    UnreachableBranch "M0809" Lint "a branch is never taken"
        "The condition always has the same value."
    SameLoopVariables "M0810" Lint "both variables of a loop have the same name"
        "The second hides the first."
    OrphanClass "M0811" Lint "a class inside of nothing"
        "A class that is written with colons is moved into the class that is named before the colon."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_in_order() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
