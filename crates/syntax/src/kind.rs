//! Every kind of token and node that a tree can hold.
//!
//! The token kinds carry their spelling as `logos` attributes, so this list is also the lexer's rule table.

use logos::Logos;

/// Declares the enum.
macro_rules! kinds {
    ($( $(#[$attribute:meta])* $name:ident, )*) => {
        /// The kind of a token or of a node.
        #[derive(Logos, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[logos(extras = LexerState)]
        #[expect(missing_docs, reason = "a token is named after its spelling, a node after what it holds")]
        pub enum SyntaxKind {
            $( $(#[$attribute])* $name, )*
        }
    };
}

kinds! {
    // Trivia: never seen by the grammar, except that it asks whether a newline stood before a token.
    #[regex("[ \t]+")]
    Whitespace,
    #[regex("\r*\n")]
    Newline,
    #[token("#", comment)]
    Comment,
    /// Text that no rule matches. Reported by the lexer, then treated as trivia so that nothing else fails.
    #[regex(r"[^\x00-\x7F]+")]
    #[regex(r".", priority = 0)]
    #[regex("\r+")]
    Unknown,

    #[token("{")]
    LeftBrace,
    #[token("}")]
    RightBrace,
    #[token("(")]
    LeftParen,
    #[token(")")]
    RightParen,
    #[token("[")]
    LeftBracket,
    #[token("]")]
    RightBracket,

    #[token("=")]
    Equals,
    #[token("$")]
    Dollar,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(";")]
    Semicolon,
    #[token(".")]
    Dot,
    #[token("?:")]
    Elvis,
    #[token("<|>")]
    Otherwise,
    #[token("=>")]
    Rocket,
    #[token("->")]
    Arrow,
    #[token("<")]
    Less,
    #[token(">")]
    Greater,
    #[token("<=")]
    LessEqual,
    #[token(">=")]
    GreaterEqual,
    #[token("==")]
    EqualEqual,
    #[token("!=")]
    NotEqual,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,

    // Spellings of other languages. The parser understands them, reports them, and goes on.
    #[token("&&")]
    AmpersandAmpersand,
    #[token("||")]
    PipePipe,
    #[token("!")]
    Bang,
    #[regex("'[^'\n]*'")]
    SingleQuoted,

    #[token("if")]
    IfKw,
    #[token("else")]
    ElseKw,
    #[token("for")]
    ForKw,
    #[token("forkv")]
    ForkvKw,
    #[token("true")]
    TrueKw,
    #[token("false")]
    FalseKw,
    #[token("bool")]
    BoolKw,
    #[token("str")]
    StrKw,
    #[token("int")]
    IntKw,
    #[token("float")]
    FloatKw,
    #[token("map")]
    MapKw,
    #[token("struct")]
    StructKw,
    #[token("variant")]
    VariantKw,
    #[token("func")]
    FuncKw,
    #[token("class")]
    ClassKw,
    #[token("include")]
    IncludeKw,
    #[token("import")]
    ImportKw,
    #[token("as")]
    AsKw,
    #[token("collect")]
    CollectKw,
    #[token("panic")]
    PanicKw,
    #[token("or")]
    OrKw,
    #[token("and")]
    AndKw,
    #[token("not")]
    NotKw,
    #[token("in")]
    InKw,

    #[regex("[a-z]([a-z0-9_]*[a-z0-9])?", priority = 2)]
    Identifier,
    #[regex("[A-Z]([a-z0-9_]*[a-z0-9])?", priority = 2)]
    Capitalized,
    /// A word that is neither. Reported by the lexer and handed on as one of the two above.
    #[regex("[A-Za-z_][A-Za-z0-9_]*", priority = 1)]
    BadWord,
    #[regex("[0-9]+")]
    Integer,
    #[regex(r"[0-9]+\.[0-9]+")]
    Float,
    #[token("\"", string)]
    Quoted,
    /// A string whose closing quote is missing. It ends where its first line ends.
    UnterminatedString,

    /// The end of the input. Never part of a tree.
    EndOfFile,

    // Nodes.
    SourceFile,
    /// What the parser skipped while it recovered from an error.
    Error,

    /// `{ statements }`
    Block,
    /// `$x T = e`
    Bind,
    /// `panic(args)`
    Panic,
    /// `collect kind name { … }`
    Collect,
    /// `kind name { … }`
    Resource,
    /// `{ items }` of a resource
    ResourceBody,
    /// `field => value,`
    ResourceField,
    /// `Before => Kind["name"],`
    ResourceEdge,
    /// `Meta:param => value,` or `Meta => value,`
    ResourceMeta,
    /// `condition ?:`
    Condition,
    /// `A["x"] -> B["y"]`
    Edge,
    /// `A["x"]` or `A["x"].field`
    EdgeHalf,
    IfStatement,
    For,
    Forkv,
    /// `func name(params) T { e }`
    Function,
    Class,
    Include,
    Import,

    /// `$x` where it is defined
    VariableName,
    /// `a.b`
    DottedName,
    /// `a:b`
    ColonName,
    /// `A:B`
    KindReference,
    ParamList,
    /// `$x T`
    Param,
    ArgList,
    /// `{ expression }`
    Body,

    /// `true`, `"text"`, `-1`, `1.5`
    Literal,
    List,
    Map,
    /// `key => value`
    MapEntry,
    Struct,
    /// `name => value`
    StructEntry,
    Call,
    /// `$a.b`
    Variable,
    Lambda,
    IfExpression,
    Paren,
    /// `a op b`, membership included
    Binary,
    /// `not a`
    Not,
    /// `a[b]`
    Index,
    /// `a->f`
    FieldAccess,
    /// `a->f <|> d`
    FieldAccessOr,
    /// `a <|> d`
    OtherwiseExpression,

    /// `bool`, `str`, `int`, `float`, `variant`
    BasicType,
    /// `[]T`
    ListType,
    /// `map{K: V}`
    MapType,
    /// `struct{a T; b U}`
    StructType,
    /// `a T`
    StructTypeField,
    /// `func(…) R`
    FunctionType,
    FunctionTypeArgs,
    /// `$a T` or `T`
    FunctionTypeArg,
}

impl SyntaxKind {
    /// Spaces, newlines, comments, and text that means nothing.
    #[must_use]
    pub fn is_trivia(self) -> bool {
        use SyntaxKind::*;
        matches!(self, Whitespace | Newline | Comment | Unknown)
    }

    /// One of the 24 reserved words.
    #[must_use]
    pub fn is_keyword(self) -> bool {
        (SyntaxKind::IfKw..=SyntaxKind::InKw).contains(&self)
    }

    pub(crate) fn is_opener(self) -> bool {
        use SyntaxKind::*;
        matches!(self, LeftParen | LeftBracket | LeftBrace)
    }

    pub(crate) fn is_closer(self) -> bool {
        use SyntaxKind::*;
        matches!(self, RightParen | RightBracket | RightBrace)
    }

    /// How a fixed token is spelled; empty for the ones that vary and for nodes.
    pub(crate) fn spelling(self) -> &'static str {
        use SyntaxKind::*;
        match self {
            LeftBrace => "{",
            RightBrace => "}",
            LeftParen => "(",
            RightParen => ")",
            LeftBracket => "[",
            RightBracket => "]",
            Equals => "=",
            Dollar => "$",
            Comma => ",",
            Colon => ":",
            Semicolon => ";",
            Dot => ".",
            Elvis => "?:",
            Otherwise => "<|>",
            Rocket => "=>",
            Arrow => "->",
            InKw => "in",
            ElseKw => "else",
            _ => "",
        }
    }
}

/// What the lexer remembers from one token to the next.
#[derive(Default, Debug)]
pub struct LexerState {
    /// A string without an end was seen. From then on a string must end on its line, so that each byte is
    /// looked at a bounded number of times.
    unterminated: bool,
}

/// A comment reaches to the end of its line; carriage returns at the end are not part of it.
fn comment(lexer: &mut logos::Lexer<'_, SyntaxKind>) {
    let rest = lexer.remainder();
    let line = rest.find('\n').map_or(rest, |end| &rest[..end]);
    lexer.bump(line.trim_end_matches('\r').len());
}

/// A backslash always takes the next character with it, so `"c:\\"` is a whole string.
fn string(lexer: &mut logos::Lexer<'_, SyntaxKind>) -> bool {
    let bytes = lexer.remainder().as_bytes();
    let mut at = 0;
    let mut first_line_end = None;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                lexer.bump(at + 1);
                return true;
            }
            b'\\' if bytes.get(at + 1) != Some(&b'\n') => at += 1,
            b'\n' => {
                first_line_end.get_or_insert(at);
                if lexer.extras.unterminated {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    lexer.extras.unterminated = true;
    let mut end = first_line_end.unwrap_or(bytes.len());
    if end > 0 && first_line_end.is_some() && bytes[end - 1] == b'\r' {
        end -= 1;
    }
    lexer.bump(end);
    false
}
