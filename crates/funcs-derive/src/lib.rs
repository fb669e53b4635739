//! Declares a function of the language from a Rust function.
//!
//! [`macro@function`] keeps the Rust function and puts a module of the same name beside it, which holds the one
//! description of the function, `FUNCTION`. It refuses to compile without a doc comment that has an example, because
//! that comment is the reference page.
//!
//! | attribute | meaning |
//! |---|---|
//! | `#[function]` | pure; the signature follows from the Rust types |
//! | `signature = "func(?1) int where ?1 is str \| list"` | for what Rust types cannot say |
//! | `name = "type"` | when the name is not that of the Rust function |
//! | `inference = Printf` | the type checker needs more than the signature |
//! | `reads` | looks at the outside world; may take `&dyn Host` and `&mut Memory` |
//! | `live = vec![Watch::…]` | the same with an event source; the expression may use the arguments |
//! | `graph = Map` | done by the runtime; the Rust function is empty and is dropped |
//!
//! An argument is any native type, a reference to a value (`&Value`, `&List`, `&Map`, `&Struct`, `&Str`, `&[u8]`), or
//! `&[Value]` for all of them; `&Type` is the type that the checker found for the result.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    Attribute, Expr, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Pat, ReturnType, Type, parse_macro_input,
};

/// Declares a function of the language.
#[proc_macro_attribute]
pub fn function(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut options = Options::default();
    let parser = syn::meta::parser(|meta| options.read(&meta));
    parse_macro_input!(attribute with parser);
    let item = parse_macro_input!(item as ItemFn);
    expand(&options, &item).unwrap_or_else(|error| error.to_compile_error()).into()
}

#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    signature: Option<LitStr>,
    inference: Option<Ident>,
    reads: bool,
    live: Option<Expr>,
    graph: Option<Ident>,
}

impl Options {
    fn read(&mut self, meta: &syn::meta::ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match word.as_str() {
            "name" => self.name = Some(meta.value()?.parse()?),
            "signature" => self.signature = Some(meta.value()?.parse()?),
            "inference" => self.inference = Some(meta.value()?.parse()?),
            "reads" => self.reads = true,
            "live" => self.live = Some(meta.value()?.parse()?),
            "graph" => self.graph = Some(meta.value()?.parse()?),
            _ => {
                let words = "`name`, `signature`, `inference`, `reads`, `live` or `graph`";
                return Err(meta.error(format!("expected {words}")));
            }
        }
        Ok(())
    }
}

fn expand(options: &Options, item: &ItemFn) -> syn::Result<Tokens> {
    let ident = &item.sig.ident;
    let name = match &options.name {
        Some(name) => name.value(),
        None => ident.to_string().trim_start_matches("r#").to_owned(),
    };
    let doc = required_doc(&item.attrs, ident)?;
    let parameters = item.sig.inputs.iter().map(Parameter::read).collect::<syn::Result<Vec<_>>>()?;
    let signature = signature(options, item, &parameters)?;
    let (effect, body) = body(options, item, &parameters)?;
    let inference = options.inference.clone().unwrap_or_else(|| format_ident!("Forms"));
    let kept = options.graph.is_none().then_some(item);
    Ok(quote! {
        #kept
        #[allow(unused_imports, clippy::wildcard_imports)]
        mod #ident {
            use super::*;
            pub(super) static FUNCTION: crate::Function = crate::Function::declared(
                super::MODULE,
                #name,
                #signature,
                #doc,
                crate::Effect::#effect,
                crate::Inference::#inference,
                #body,
            );
        }
    })
}

/// What one parameter of the Rust function takes.
enum Parameter {
    Host,
    Memory,
    Result,
    All,
    One { name: Ident, ty: Box<Type> },
}

impl Parameter {
    fn read(argument: &FnArg) -> syn::Result<Parameter> {
        let FnArg::Typed(argument) = argument else {
            return Err(syn::Error::new_spanned(argument, "expected a plain function"));
        };
        let Pat::Ident(name) = &*argument.pat else {
            return Err(syn::Error::new_spanned(&argument.pat, "expected a name"));
        };
        let Type::Reference(reference) = &*argument.ty else { return Ok(Parameter::one(name, &argument.ty)) };
        Ok(match &*reference.elem {
            Type::TraitObject(_) => Parameter::Host,
            Type::Slice(slice) if is(&slice.elem, "Value") => Parameter::All,
            ty if is(ty, "Memory") => Parameter::Memory,
            ty if is(ty, "Type") => Parameter::Result,
            _ => Parameter::one(name, &argument.ty),
        })
    }

    fn one(name: &syn::PatIdent, ty: &Type) -> Parameter {
        Parameter::One { name: name.ident.clone(), ty: Box::new(ty.clone()) }
    }
}

fn is(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

fn signature(options: &Options, item: &ItemFn, parameters: &[Parameter]) -> syn::Result<Tokens> {
    if let Some(text) = &options.signature {
        return Ok(quote!(crate::Signature::Text(#text)));
    }
    let mut described = Vec::new();
    for parameter in parameters {
        match parameter {
            Parameter::Host | Parameter::Memory => {}
            Parameter::Result | Parameter::All => {
                let message = "expected `signature = \"…\"`: it does not follow from these arguments";
                return Err(syn::Error::new_spanned(&item.sig, message));
            }
            Parameter::One { name, ty } => {
                let name = name.to_string();
                let name = name.trim_start_matches("r#").trim_start_matches('_');
                let ty = match &**ty {
                    ty @ Type::Reference(_) => quote!(<#ty as crate::declare::Borrowed<'_>>::ty()),
                    ty => quote!(<#ty as crate::declare::Native>::ty()),
                };
                described.push(quote!((#name, #ty)));
            }
        }
    }
    let (result, _) = result(item)?;
    Ok(quote! {
        crate::Signature::Native(|| crate::declare::form(
            [#(#described),*],
            <#result as crate::declare::Native>::ty(),
        ))
    })
}

/// The type of the value, and whether it comes in a `Result`.
fn result(item: &ItemFn) -> syn::Result<(Type, bool)> {
    let ReturnType::Type(_, ty) = &item.sig.output else {
        return Err(syn::Error::new_spanned(&item.sig, "expected a result"));
    };
    let Type::Path(path) = &**ty else { return Ok(((**ty).clone(), false)) };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else {
        return Ok(((**ty).clone(), false));
    };
    if let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(ty)) = arguments.args.first()
    {
        return Ok((ty.clone(), true));
    }
    Err(syn::Error::new_spanned(ty, "expected `Result<…, Failure>`"))
}

fn body(options: &Options, item: &ItemFn, parameters: &[Parameter]) -> syn::Result<(Ident, Tokens)> {
    if let Some(graph) = &options.graph {
        return Ok((format_ident!("Pure"), quote!(crate::Body::Graph(crate::GraphFunction::#graph))));
    }
    let call = call(item, parameters)?;
    let outside = options.reads || options.live.is_some();
    let has = |wanted: fn(&Parameter) -> bool| parameters.iter().any(wanted);
    if !outside && has(|parameter| matches!(parameter, Parameter::Host | Parameter::Memory)) {
        return Err(syn::Error::new_spanned(&item.sig, "expected `reads` or `live`: it looks outside"));
    }
    if outside && has(|parameter| matches!(parameter, Parameter::Result)) {
        return Err(syn::Error::new_spanned(
            &item.sig,
            "expected `&mut Memory`, which knows the result type",
        ));
    }
    let read = quote!(|__memory, __host, __arguments| { #call });
    Ok(match &options.live {
        Some(watches) => {
            let bound = bind(parameters);
            (
                format_ident!("Live"),
                quote! {
                    crate::Body::Live {
                        watches: |__arguments| {
                            #[allow(unused_variables)]
                            { #bound Ok(#watches) }
                        },
                        read: #read,
                    }
                },
            )
        }
        None if options.reads => (format_ident!("Reads"), quote!(crate::Body::Host(#read))),
        None if has(|parameter| matches!(parameter, Parameter::Result)) => {
            (format_ident!("Pure"), quote!(crate::Body::Typed(|__result, __arguments| { #call })))
        }
        None => (format_ident!("Pure"), quote!(crate::Body::Pure(|__arguments| { #call }))),
    })
}

/// Takes the arguments apart and calls the Rust function.
fn call(item: &ItemFn, parameters: &[Parameter]) -> syn::Result<Tokens> {
    let ident = &item.sig.ident;
    let bound = bind(parameters);
    let passed = parameters.iter().map(|parameter| match parameter {
        Parameter::Host => quote!(__host),
        Parameter::Memory => quote!(__memory),
        Parameter::Result => quote!(__result),
        Parameter::All => quote!(__arguments),
        Parameter::One { name, .. } => quote!(#name),
    });
    let call = quote!(super::#ident(#(#passed),*));
    let (_, fallible) = result(item)?;
    let value = if fallible { quote!(#call?) } else { call };
    Ok(quote! { #bound Ok(crate::declare::Native::to_value(&#value)) })
}

fn bind(parameters: &[Parameter]) -> Tokens {
    if parameters.iter().any(|parameter| matches!(parameter, Parameter::All)) {
        return Tokens::new();
    }
    let one = |parameter: &Parameter| match parameter {
        Parameter::One { name, ty } => Some((name.clone(), ty.clone())),
        _ => None,
    };
    let ones: Vec<_> = parameters.iter().filter_map(one).collect();
    let count = ones.len();
    let slots: Vec<_> = (0..count).map(|i| format_ident!("__argument_{i}")).collect();
    let lets = ones.iter().zip(&slots).map(|((name, ty), slot)| {
        let position = quote!(crate::declare::at(stringify!(#name)));
        match &**ty {
            ty @ Type::Reference(_) => {
                quote!(let #name = <#ty as crate::declare::Borrowed<'_>>::borrow(#slot).map_err(#position)?;)
            }
            ty => quote!(let #name = <#ty as crate::declare::Native>::from_value(#slot).map_err(#position)?;),
        }
    });
    quote! {
        let [#(#slots),*] = __arguments else {
            return Err(crate::declare::arity(#count, __arguments.len()));
        };
        #(#lets)*
    }
}

fn required_doc(attributes: &[Attribute], ident: &Ident) -> syn::Result<String> {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(doc_line);
    // One blank follows the slashes; what stands further in is meant to.
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned());
    let doc = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    if doc.is_empty() {
        let message = "a function needs a doc comment: it is what the reference page shows";
        return Err(syn::Error::new(ident.span(), message));
    }
    if !doc.contains("```mcl") {
        let message = "a function needs an example: a block that opens with ```mcl in its doc comment";
        return Err(syn::Error::new(ident.span(), message));
    }
    Ok(doc)
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &meta.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    Some(text.value())
}
