//! Statements.

use super::*;
use SyntaxKind::{Capitalized, Identifier, Quoted, Star};

nodes! {
    /// `$x T = e`
    Bind,
    /// `panic(args)`
    Panic,
    /// `collect kind name { … }`
    Collect,
    /// `kind name { … }`
    Resource,
    /// The items of a resource with their braces.
    ResourceBody,
    /// `field => value,` or `field => condition ?: value,`
    ResourceField,
    /// `Before => Kind["name"],` with an optional condition.
    ResourceEdge,
    /// `Meta:param => value,` or `Meta => value,` with an optional condition.
    ResourceMeta,
    /// `condition ?:`
    Condition,
    /// `A["x"] -> B["y"]`
    Edge,
    /// `A["x"]` or `A["x"].field`
    EdgeHalf,
    /// `if c { … } else { … }` over statements.
    IfStatement,
    /// `for $index, $value in list { … }`
    For,
    /// `forkv $key, $value in map { … }`
    Forkv,
    /// `func name(params) T { e }`
    Function,
    /// `class name(params) { … }`
    Class,
    /// `include name(args) as alias`
    Include,
    /// `import "name" as alias`
    Import,
    /// `{ statements }`
    Block,
    /// Parameters with their parentheses.
    ParamList,
    /// `$x` or `$x T`
    Param,
}

choice! {
    /// A statement.
    Statement {
        /// `$x T = e`
        Bind,
        /// `panic(args)`
        Panic,
        /// `collect kind name { … }`
        Collect,
        /// `kind name { … }`
        Resource,
        /// `A["x"] -> B["y"]`
        Edge,
        /// `if c { … } else { … }`
        IfStatement,
        /// `for $index, $value in list { … }`
        For,
        /// `forkv $key, $value in map { … }`
        Forkv,
        /// `func name(params) T { e }`
        Function,
        /// `class name(params) { … }`
        Class,
        /// `include name(args) as alias`
        Include,
        /// `import "name" as alias`
        Import,
    }
}

choice! {
    /// One line of a resource.
    ResourceItem {
        /// `field => value,`
        ResourceField,
        /// `Before => Kind["name"],`
        ResourceEdge,
        /// `Meta:param => value,`
        ResourceMeta,
    }
}

impl Bind {
    /// What is bound.
    #[must_use]
    pub fn variable(&self) -> Option<VariableName> {
        child(&self.0)
    }

    /// The declared type.
    #[must_use]
    pub fn type_(&self) -> Option<Type> {
        child(&self.0)
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        child(&self.0)
    }
}

impl Panic {
    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Option<ArgList> {
        child(&self.0)
    }
}

impl Collect {
    /// What is collected. Errors about the statement are placed here.
    #[must_use]
    pub fn resource(&self) -> Option<Resource> {
        child(&self.0)
    }
}

impl Resource {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Option<ColonName> {
        child(&self.0)
    }

    /// The name: a string, or a list of them.
    #[must_use]
    pub fn name(&self) -> Option<Expression> {
        child(&self.0)
    }

    /// The items, in order.
    pub fn items(&self) -> impl Iterator<Item = ResourceItem> {
        let body: Option<ResourceBody> = child(&self.0);
        body.into_iter().flat_map(|body| children(body.syntax()))
    }
}

impl ResourceItem {
    /// The condition before `?:`.
    #[must_use]
    pub fn condition(&self) -> Option<Expression> {
        child::<Condition>(self.syntax()).and_then(|condition| condition.value())
    }
}

impl ResourceField {
    /// The name as it stands in the text.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name of the field.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.name_token().map(Name::of_token)
    }

    /// What must hold for the field to be set.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        child(&self.0)
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        child(&self.0)
    }
}

impl ResourceEdge {
    /// The word, such as `Before`, as it stands in the text.
    #[must_use]
    pub fn word_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Capitalized)
    }

    /// The word in lower case.
    #[must_use]
    pub fn word(&self) -> Option<String> {
        self.word_token().map(|token| token.text().to_ascii_lowercase())
    }

    /// What must hold for the edge to be there.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        child(&self.0)
    }

    /// The other end.
    #[must_use]
    pub fn half(&self) -> Option<EdgeHalf> {
        child(&self.0)
    }
}

impl ResourceMeta {
    /// The parameter as it stands in the text; none in the form that sets them all at once.
    #[must_use]
    pub fn param_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The parameter; none in the form that sets them all at once.
    #[must_use]
    pub fn param(&self) -> Option<Name> {
        self.param_token().map(Name::of_token)
    }

    /// What must hold for it to be set.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        child(&self.0)
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        child(&self.0)
    }
}

impl Condition {
    /// The expression before `?:`.
    #[must_use]
    pub fn value(&self) -> Option<Expression> {
        child(&self.0)
    }
}

impl Edge {
    /// The resources along the edge. One alone is accepted here.
    pub fn halves(&self) -> AstChildren<EdgeHalf> {
        children(&self.0)
    }
}

impl EdgeHalf {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Option<KindReference> {
        child(&self.0)
    }

    /// The name in the brackets.
    #[must_use]
    pub fn name(&self) -> Option<Expression> {
        child(&self.0)
    }

    /// The field that is sent or received, as it stands in the text.
    #[must_use]
    pub fn field_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The field that is sent or received.
    #[must_use]
    pub fn field(&self) -> Option<Name> {
        self.field_token().map(Name::of_token)
    }
}

/// What follows `else` in a statement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ElseStatement {
    /// `else { … }`
    Block(Block),
    /// `else if …`
    If(IfStatement),
}

impl IfStatement {
    /// What decides.
    #[must_use]
    pub fn condition(&self) -> Option<Expression> {
        child(&self.0)
    }

    /// The statements if it holds.
    #[must_use]
    pub fn then_block(&self) -> Option<Block> {
        child(&self.0)
    }

    /// The statements if it does not.
    #[must_use]
    pub fn else_branch(&self) -> Option<ElseStatement> {
        match child::<IfStatement>(&self.0) {
            Some(inner) => Some(ElseStatement::If(inner)),
            None => nth(&self.0, 1).map(ElseStatement::Block),
        }
    }
}

impl For {
    /// The variable that counts from zero.
    #[must_use]
    pub fn index(&self) -> Option<VariableName> {
        nth(&self.0, 0)
    }

    /// The variable that takes the elements.
    #[must_use]
    pub fn value(&self) -> Option<VariableName> {
        nth(&self.0, 1)
    }

    /// The list.
    #[must_use]
    pub fn list(&self) -> Option<Expression> {
        child(&self.0)
    }

    /// What is done for each element.
    #[must_use]
    pub fn block(&self) -> Option<Block> {
        child(&self.0)
    }
}

impl Forkv {
    /// The variable that takes the keys.
    #[must_use]
    pub fn key(&self) -> Option<VariableName> {
        nth(&self.0, 0)
    }

    /// The variable that takes the values.
    #[must_use]
    pub fn value(&self) -> Option<VariableName> {
        nth(&self.0, 1)
    }

    /// The map.
    #[must_use]
    pub fn map(&self) -> Option<Expression> {
        child(&self.0)
    }

    /// What is done for each entry.
    #[must_use]
    pub fn block(&self) -> Option<Block> {
        child(&self.0)
    }
}

impl Function {
    /// The name as it stands in the text.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.name_token().map(Name::of_token)
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> Option<ParamList> {
        child(&self.0)
    }

    /// The declared type of the result.
    #[must_use]
    pub fn returned(&self) -> Option<Type> {
        child(&self.0)
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Option<Body> {
        child(&self.0)
    }
}

impl Class {
    /// The name.
    #[must_use]
    pub fn name(&self) -> Option<ColonName> {
        child(&self.0)
    }

    /// The parameters; none if there are no parentheses.
    #[must_use]
    pub fn params(&self) -> Option<ParamList> {
        child(&self.0)
    }

    /// The statements.
    #[must_use]
    pub fn block(&self) -> Option<Block> {
        child(&self.0)
    }
}

impl Include {
    /// The class.
    #[must_use]
    pub fn class(&self) -> Option<DottedName> {
        child(&self.0)
    }

    /// The arguments; none if there are no parentheses.
    #[must_use]
    pub fn args(&self) -> Option<ArgList> {
        child(&self.0)
    }

    /// The name after `as`, as it stands in the text.
    #[must_use]
    pub fn alias_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// The name after `as`.
    #[must_use]
    pub fn alias(&self) -> Option<Name> {
        self.alias_token().map(Name::of_token)
    }
}

/// What follows `as` in an import.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ImportAlias {
    /// `as name`
    Name(Name),
    /// `as *`
    Star,
}

impl Import {
    /// The string as it stands in the text.
    #[must_use]
    pub fn name_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Quoted)
    }

    /// What stands between the quotes, to the letter: escapes and variables mean nothing here.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.name_token().map(Name::in_quotes)
    }

    /// The name after `as`, as it stands in the text.
    #[must_use]
    pub fn alias_token(&self) -> Option<SyntaxToken> {
        token(&self.0, Identifier)
    }

    /// What follows `as`.
    #[must_use]
    pub fn alias(&self) -> Option<ImportAlias> {
        match self.alias_token() {
            Some(name) => Some(ImportAlias::Name(Name::of_token(name))),
            None => token(&self.0, Star).map(|_| ImportAlias::Star),
        }
    }
}

impl Block {
    /// The statements, in order.
    pub fn statements(&self) -> AstChildren<Statement> {
        children(&self.0)
    }
}

impl ParamList {
    /// The parameters, in order.
    pub fn params(&self) -> AstChildren<Param> {
        children(&self.0)
    }
}

impl Param {
    /// The variable.
    #[must_use]
    pub fn variable(&self) -> Option<VariableName> {
        child(&self.0)
    }

    /// The declared type.
    #[must_use]
    pub fn type_(&self) -> Option<Type> {
        child(&self.0)
    }
}
