//! Derives the schema of a resource kind from its struct.
//!
//! [`macro@Resource`] is for a kind, [`macro@Fields`] for any other described struct (what a kind sends, the
//! metaparameters), [`macro@StructValue`] for a struct that is the value of one field. All three refuse to
//! compile when a public field has no doc comment, because that comment is the reference page.
//!
//! Attributes of a kind: `#[resource(kind = "file", edges, group, batch, refresh, send, receive, reverse, query,
//! blocking, background)]`. Attributes of a field: `#[field(name = "other", alias = "old", secret)]`. A field is `secret`
//! exactly if its type is a `Secret`, which cannot be printed.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Expr, Field, Fields, Lit, LitStr, Meta, Path, parse_macro_input};

/// Describes the parameters of a kind.
#[proc_macro_derive(Resource, attributes(resource, field))]
pub fn resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand_resource(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Describes the fields of a struct.
#[proc_macro_derive(Fields, attributes(fields, field))]
pub fn fields(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand_fields(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a struct the value of a field.
#[proc_macro_derive(StructValue, attributes(field))]
pub fn struct_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand_struct_value(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

const TRAITS: [&str; 10] =
    ["edges", "group", "batch", "refresh", "send", "receive", "reverse", "query", "blocking", "background"];

fn expand_resource(input: &DeriveInput) -> syn::Result<Tokens> {
    let attribute = input.attrs.iter().find(|attribute| attribute.path().is_ident("resource"));
    let attribute = attribute
        .ok_or_else(|| syn::Error::new_spanned(&input.ident, "expected #[resource(kind = \"…\")]"))?;
    let mut kind: Option<LitStr> = None;
    let mut traits: Vec<syn::Ident> = Vec::new();
    attribute.parse_nested_meta(|meta| {
        if meta.path.is_ident("kind") {
            kind = Some(meta.value()?.parse()?);
            return Ok(());
        }
        match meta.path.get_ident() {
            Some(ident) if TRAITS.iter().any(|name| ident == name) => traits.push(ident.clone()),
            _ => return Err(meta.error(format!("expected `kind = \"…\"` or one of {TRAITS:?}"))),
        }
        Ok(())
    })?;
    let kind = kind.ok_or_else(|| syn::Error::new_spanned(attribute, "expected `kind = \"…\"`"))?;
    let doc = required_doc(&input.attrs, &input.ident, "a kind")?;
    let krate: Path = syn::parse_quote!(::mgmt_resource);
    let fields = fields_impl(input, &krate)?;
    let name = &input.ident;
    Ok(quote! {
        #fields
        impl #krate::Declared for #name {
            const KIND: &'static str = #kind;
            const DOC: &'static str = #doc;
            const FILE: &'static str = file!();
            const TRAITS: #krate::Traits = {
                let mut traits = #krate::Traits {
                    edges: false, group: false, batch: false, refresh: false, send: false, receive: false,
                    reverse: false, query: false, blocking: false, background: false,
                };
                #(traits.#traits = true;)*
                traits
            };
        }
    })
}

fn expand_fields(input: &DeriveInput) -> syn::Result<Tokens> {
    let mut krate: Path = syn::parse_quote!(::mgmt_resource);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("fields")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("path") {
                return Err(meta.error("expected `path = crate`"));
            }
            krate = meta.value()?.call(Path::parse_mod_style)?;
            Ok(())
        })?;
    }
    fields_impl(input, &krate)
}

fn fields_impl(input: &DeriveInput, krate: &Path) -> syn::Result<Tokens> {
    let name = &input.ident;
    let specs = named_fields(input)?.map(|field| field_spec(name, field, krate));
    let specs = specs.collect::<syn::Result<Vec<_>>>()?;
    Ok(quote! {
        impl #krate::Fields for #name {
            const FIELDS: &'static [#krate::FieldSpec] = &[#(#specs),*];
        }
    })
}

fn field_spec(owner: &syn::Ident, field: &Field, krate: &Path) -> syn::Result<Tokens> {
    let described = Described::read(field)?;
    let Described { ident, name, aliases, secret, doc } = &described;
    let ty = &field.ty;
    let support = quote!(#krate::derive_support);
    Ok(quote! {
        #krate::FieldSpec {
            name: #name,
            aliases: &[#(#aliases),*],
            ty: <#ty as #support::Native>::ty,
            optional: <#ty as #support::Native>::OPTIONAL,
            doc: #doc,
            secret: #support::agreed(<#ty as #support::Native>::SECRET, #secret),
            get: |any| match any.downcast_ref::<#owner>() {
                ::core::option::Option::Some(this) => #support::Native::to_value(&this.#ident),
                ::core::option::Option::None => #support::Value::Nil,
            },
            set: |any, value| {
                if let ::core::option::Option::Some(this) = any.downcast_mut::<#owner>() {
                    this.#ident = <#ty as #support::Native>::from_value(value)?;
                }
                ::core::result::Result::Ok(())
            },
        }
    })
}

fn expand_struct_value(input: &DeriveInput) -> syn::Result<Tokens> {
    let owner = &input.ident;
    let fields = named_fields(input)?.map(Described::read).collect::<syn::Result<Vec<_>>>()?;
    let types: Vec<_> = named_fields(input)?.map(|field| &field.ty).collect();
    let names: Vec<_> = fields.iter().map(|field| &field.name).collect();
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let support = quote!(::mgmt_resource::derive_support);
    Ok(quote! {
        impl #support::Native for #owner {
            fn ty() -> #support::Type {
                #support::Type::structure([#((#names, <#types as #support::Native>::ty())),*])
            }
            fn from_value(value: &#support::Value) -> ::core::result::Result<Self, #support::Mismatch> {
                let wrong = || #support::Mismatch::types(<Self as #support::Native>::ty(), value);
                let #support::Value::Struct(fields) = value else { return ::core::result::Result::Err(wrong()) };
                let mut result = Self::default();
                for (name, value) in &fields.fields {
                    match &**name {
                        #(#names => result.#idents = #support::Native::from_value(value)?,)*
                        _ => return ::core::result::Result::Err(wrong()),
                    }
                }
                ::core::result::Result::Ok(result)
            }
            fn to_value(&self) -> #support::Value {
                #support::Value::structure([#((#names, #support::Native::to_value(&self.#idents))),*])
            }
        }
    })
}

/// What a field's attributes say.
struct Described {
    ident: syn::Ident,
    name: String,
    aliases: Vec<String>,
    secret: bool,
    doc: String,
}

impl Described {
    fn read(field: &Field) -> syn::Result<Described> {
        let ident = field.ident.clone().ok_or_else(|| syn::Error::new_spanned(field, "expected a name"))?;
        let name = ident.to_string().trim_start_matches("r#").to_owned();
        let doc = required_doc(&field.attrs, &ident, "a field")?;
        let mut described = Described { ident, name, aliases: Vec::new(), secret: false, doc };
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("field")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    described.name = meta.value()?.parse::<LitStr>()?.value();
                } else if meta.path.is_ident("alias") {
                    described.aliases.push(meta.value()?.parse::<LitStr>()?.value());
                } else if meta.path.is_ident("secret") {
                    described.secret = true;
                } else {
                    return Err(meta.error("expected `name`, `alias` or `secret`"));
                }
                Ok(())
            })?;
        }
        Ok(described)
    }
}

fn named_fields(input: &DeriveInput) -> syn::Result<impl Iterator<Item = &Field>> {
    match &input.data {
        Data::Struct(data) if !matches!(data.fields, Fields::Unnamed(_)) => Ok(data.fields.iter()),
        _ => Err(syn::Error::new_spanned(&input.ident, "expected a struct with named fields")),
    }
}

fn required_doc(attributes: &[Attribute], ident: &syn::Ident, what: &str) -> syn::Result<String> {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(doc_line);
    // One blank follows the slashes; what stands further in is meant to.
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned());
    let doc = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    if doc.is_empty() {
        let message = format!("{what} needs a doc comment: it is what the reference page shows");
        return Err(syn::Error::new_spanned(ident, message));
    }
    Ok(doc)
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &meta.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    Some(text.value())
}
