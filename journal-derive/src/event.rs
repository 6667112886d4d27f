//! `#[derive(Event)]`

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Data, DeriveInput, Error, ExprPath, Fields, LitInt, LitStr, Path, Result, Token, Variant,
    meta::ParseNestedMeta, parenthesized, parse_quote, punctuated::Punctuated, spanned::Spanned,
};

use crate::attribute::{each_key, key, set, value};

const ATTRIBUTE: &str = "event";
/// `Manifest::RESERVED_PREFIX` of journal-core, which no macro can depend on.
const RESERVED_PREFIX: &str = "actor-journal/";

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let options = Options::of(input)?;
    let variants = match &input.data {
        Data::Struct(data) => {
            refuse_on_fields(&data.fields)?;
            Vec::new()
        }
        Data::Enum(data) => data
            .variants
            .iter()
            .map(TaggedVariant::of)
            .collect::<Result<_>>()?,
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span,
                "a union cannot be an event, because nothing tells which field is valid; make it an enum",
            ));
        }
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.params.span(),
            "a generic type cannot be an event, because all its instances would be stored under one manifest; \
             derive `Event` for a type without parameters that contains this one, or implement it by hand for each \
             instance",
        ));
    }

    let Options {
        krate,
        manifest,
        version,
        upcasters,
        ..
    } = &options;
    let name = &input.ident;
    let (_, _, where_clause) = input.generics.split_for_impl();
    let tags = tags(&options, &variants);
    let upcasters = upcasters.as_ref().map(|upcasters| {
        let call = quote_spanned!(upcasters.span()=> #upcasters());
        quote! {
            fn upcasters() -> #krate::Upcasters<Self> {
                #call
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #krate::Event for #name #where_clause {
            const MANIFEST: &'static str = #manifest;
            const VERSION: u32 = #version;
            #tags
            #upcasters
        }
    })
}

/// The method `tags`, unless the trait's own will do.
fn tags(options: &Options, variants: &[TaggedVariant<'_>]) -> Option<TokenStream> {
    let Options {
        krate,
        tags: common,
        tags_with,
        ..
    } = options;
    let list = |tags: &[String]| quote!(::std::vec![#(#krate::Tag::from_static(#tags)),*]);
    let tagged: Vec<_> = variants
        .iter()
        .filter(|variant| !variant.tags.is_empty())
        .collect();
    if common.is_empty() && tagged.is_empty() && tags_with.is_none() {
        return None;
    }
    let fixed = if tagged.is_empty() {
        list(common)
    } else {
        let arms = tagged.iter().map(|variant| {
            let name = &variant.variant.ident;
            let mut tags = common.clone();
            tags.extend(variant.tags.iter().filter(|tag| !common.contains(tag)).cloned());
            let list = list(&tags);
            quote!(Self::#name { .. } => #list,)
        });
        let rest = (tagged.len() < variants.len()).then(|| {
            let list = list(common);
            quote!(_ => #list,)
        });
        quote!(match self { #(#arms)* #rest })
    };
    let body = match tags_with {
        None => fixed,
        // The call comes first: no variable of ours is in scope yet that could hide the user's function.
        Some(more) => {
            let call = quote_spanned!(more.span()=> #more(self));
            quote! {
                let more: ::std::vec::Vec<#krate::Tag> = #call;
                let mut tags = #fixed;
                for tag in more {
                    if !tags.contains(&tag) {
                        tags.push(tag);
                    }
                }
                tags
            }
        }
    };
    Some(quote! {
        fn tags(&self) -> ::std::vec::Vec<#krate::Tag> {
            #body
        }
    })
}

/// What the attributes of the type say.
struct Options {
    krate: Path,
    manifest: LitStr,
    version: u32,
    tags: Vec<String>,
    tags_with: Option<ExprPath>,
    upcasters: Option<ExprPath>,
}

impl Options {
    fn of(input: &DeriveInput) -> Result<Self> {
        let (mut krate, mut manifest, mut version, mut tags) = (None, None, None, None);
        let (mut tags_with, mut upcasters) = (None, None);
        each_key(ATTRIBUTE, &input.attrs, |meta| {
            match key(meta).as_str() {
            "manifest" => set(&mut manifest, meta, parse_manifest(meta)?),
            "version" => set(&mut version, meta, parse_version(meta)?),
            "tags" => set(&mut tags, meta, parse_tags(meta)?),
            "tags_with" => set(&mut tags_with, meta, value(meta, "tags_with = path::of::a::function")?),
            "upcasters" => set(&mut upcasters, meta, value(meta, "upcasters = path::of::a::function")?),
            "crate" => set(&mut krate, meta, value(meta, "crate = path::of::a::module")?),
            unknown => Err(meta.error(format!(
                "unknown key `{unknown}`; the keys are `manifest`, `version`, `tags`, `tags_with`, `upcasters` and \
                 `crate`"
            ))),
        }
        })?;
        Ok(Self {
            krate: krate.unwrap_or_else(|| parse_quote!(::actor_journal)),
            manifest: manifest.ok_or_else(|| {
                Error::new(
                    input.ident.span(),
                    "under which name are these events stored? Write `#[event(manifest = \"account-event\")]`, and \
                     keep the name when the type is renamed",
                )
            })?,
            version: version.unwrap_or(0),
            tags: tags.unwrap_or_default(),
            tags_with,
            upcasters,
        })
    }
}

struct TaggedVariant<'a> {
    variant: &'a Variant,
    tags: Vec<String>,
}

impl<'a> TaggedVariant<'a> {
    fn of(variant: &'a Variant) -> Result<Self> {
        refuse_on_fields(&variant.fields)?;
        let mut tags = None;
        each_key(ATTRIBUTE, &variant.attrs, |meta| {
            match key(meta).as_str() {
            "tags" => set(&mut tags, meta, parse_tags(meta)?),
            other => Err(meta.error(format!(
                "`{other}` has no meaning on a variant, which can have `tags(\"a\", \"b\")`; other keys belong on \
                 the enum"
            ))),
        }
        })?;
        Ok(Self {
            variant,
            tags: tags.unwrap_or_default(),
        })
    }
}

fn refuse_on_fields(fields: &Fields) -> Result<()> {
    let mut attributes = fields.iter().flat_map(|field| &field.attrs);
    match attributes.find(|attribute| attribute.path().is_ident(ATTRIBUTE)) {
        None => Ok(()),
        Some(attribute) => Err(Error::new(
            attribute.span(),
            "`#[event(..)]` has no meaning on a field; write it on the type or on a variant, and take tags from \
             fields by `#[event(tags_with = path::of::a::function)]` on the type",
        )),
    }
}

fn parse_manifest(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let manifest: LitStr = value(meta, "manifest = \"account-event\"")?;
    if manifest.value().trim().is_empty() {
        return Err(Error::new(
            manifest.span(),
            "the manifest is empty; write a name, for example `manifest = \"account-event\"`",
        ));
    }
    if manifest.value().starts_with(RESERVED_PREFIX) {
        return Err(Error::new(
            manifest.span(),
            format!(
                "manifests that begin with `{RESERVED_PREFIX}` are those of the engine's own events; choose another name"
            ),
        ));
    }
    Ok(manifest)
}

fn parse_version(meta: &ParseNestedMeta<'_>) -> Result<u32> {
    let version: LitInt = value(meta, "version = 1")?;
    match version.base10_parse() {
        Ok(0) => Err(Error::new(
            version.span(),
            "version 0 stands for none; leave the key out, or start with `version = 1`",
        )),
        Ok(number) => Ok(number),
        Err(_) => Err(Error::new(
            version.span(),
            format!(
                "write a version from 1 to {}, for example `version = 1`",
                u32::MAX
            ),
        )),
    }
}

fn parse_tags(meta: &ParseNestedMeta<'_>) -> Result<Vec<String>> {
    let malformed = |error: Error| Error::new(error.span(), "write `tags(\"a\", \"b\")`");
    let list = || {
        let content;
        parenthesized!(content in meta.input);
        Punctuated::<LitStr, Token![,]>::parse_terminated(&content)
    };
    let mut tags = Vec::new();
    for tag in list().map_err(malformed)? {
        let name = tag.value();
        if name.is_empty() {
            return Err(Error::new(
                tag.span(),
                "a tag is empty; write a name, or leave it out",
            ));
        }
        if tags.contains(&name) {
            return Err(Error::new(
                tag.span(),
                "this tag is given twice; keep one of them",
            ));
        }
        tags.push(name);
    }
    if tags.is_empty() {
        return Err(meta.error("`tags` names no tag; write `tags(\"a\", \"b\")` or leave it out"));
    }
    Ok(tags)
}
