//! `#[derive(PersistentActor)]`

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Data, DeriveInput, Error, ExprPath, Field, GenericArgument, Ident, Index, LitInt, LitStr, Member, Path,
    PathArguments, Result, Token, Type, meta::ParseNestedMeta, parenthesized, parse_quote, spanned::Spanned,
};

use crate::attribute::{each_key, key, set, value};

const ATTRIBUTE: &str = "persistent";

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "a persistent actor is a struct with a `#[persistent(state)]` field; put the enum into a field of one",
        ));
    };
    let options = Options::of(input)?;
    let fields = Marked::of(data.fields.iter())?;
    let id = id(&options, &fields, input)?;
    let Some((state, model)) = fields.state else {
        return Err(Error::new(
            input.ident.span(),
            "which field holds the state? Write `#[persistent(state)] state: Durable<Self>`",
        ));
    };

    let krate = &options.krate;
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let is_own_model = model_is(&model, name);
    let (model, this) = if is_own_model {
        (quote!(Self), quote!(self))
    } else {
        (model.to_token_stream(), quote!(self.#state.model()))
    };
    // Errors about the model show the actor, not the derive.
    let model_of_actor = quote_spanned!(name.span()=> type Model = #model;);
    let options_method = options.method();
    let hooks = options.hooks();

    let mut with_message = input.generics.clone();
    let message = format_ident!("__Message");
    with_message.params.push(parse_quote!(#message));
    let (handler_generics, _, _) = with_message.split_for_impl();
    let more_bounds = where_clause.map(|clause| {
        let predicates = clause.predicates.iter();
        quote!(#(#predicates,)*)
    });

    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #krate::PersistentActor for #name #type_generics #where_clause {
            #model_of_actor

            fn persistence_id(&self) -> ::std::string::String {
                #id
            }

            fn durable(&self) -> &#krate::Durable<Self::Model> {
                &self.#state
            }

            fn durable_mut(&mut self) -> &mut #krate::Durable<Self::Model> {
                &mut self.#state
            }

            fn model(&self) -> &Self::Model {
                #this
            }

            #options_method
            #hooks
        }

        #[automatically_derived]
        impl #impl_generics #krate::actix::Actor for #name #type_generics #where_clause {
            type Context = #krate::actix::Context<Self>;

            fn started(&mut self, context: &mut Self::Context) {
                #krate::derived::started(self, context);
            }

            fn stopping(&mut self, context: &mut Self::Context) -> #krate::actix::Running {
                #krate::derived::stopping(self, context)
            }

            fn stopped(&mut self, context: &mut Self::Context) {
                #krate::derived::stopped(self, context);
            }
        }

        #[automatically_derived]
        impl #impl_generics #krate::actix::Supervised for #name #type_generics #where_clause {
            fn restarting(&mut self, context: &mut Self::Context) {
                #krate::derived::restarting(self, context);
            }
        }

        #[automatically_derived]
        impl #handler_generics #krate::actix::Handler<#message> for #name #type_generics
        where
            Self: #krate::PersistentHandler<#message>,
            #message: #krate::actix::Message + 'static,
            #message::Result: #krate::derived::FromFailure + ::core::marker::Send,
            #more_bounds
        {
            type Result = #krate::DurableResponse<#message::Result>;

            fn handle(&mut self, message: #message, context: &mut Self::Context) -> Self::Result {
                #krate::PersistentHandler::handle(self, message, context)
            }
        }
    })
}

fn id(options: &Options, fields: &Marked, input: &DeriveInput) -> Result<TokenStream> {
    let mut ids = Vec::new();
    ids.extend(fields.id.as_ref().map(|(field, span)| {
        let text = quote_spanned!(*span=> ::std::string::ToString::to_string(&self.#field));
        (*span, text)
    }));
    ids.extend(options.id.as_ref().map(|id| {
        let text = quote!(::std::string::String::from(#id));
        (id.span(), text)
    }));
    ids.extend(options.id_with.as_ref().map(|function| {
        let call = quote_spanned!(function.span()=> #function(self));
        (function.span(), call)
    }));
    let mut ids = ids.into_iter();
    match (ids.next(), ids.next()) {
        (Some((_, id)), None) => Ok(id),
        (_, Some((span, _))) => Err(Error::new(
            span,
            "the persistence id is given twice; keep one of a `#[persistent(id)]` field, `id = \"..\"` and `id_with`",
        )),
        (None, None) => Err(Error::new(
            input.ident.span(),
            "whose events are these? Mark a field with `#[persistent(id)]`; for an actor that exists once, write \
             `#[persistent(id = \"its-name\")]`",
        )),
    }
}

/// Whether a type is the actor itself.
fn model_is(model: &Type, name: &Ident) -> bool {
    match model {
        Type::Path(path) if path.qself.is_none() => path.path.is_ident("Self") || path.path.is_ident(name),
        _ => false,
    }
}

/// The fields that matter.
#[derive(Default)]
struct Marked {
    id: Option<(Member, Span)>,
    state: Option<(Member, Type)>,
}

impl Marked {
    fn of<'a>(fields: impl Iterator<Item = &'a Field>) -> Result<Self> {
        let mut marked = Self::default();
        for (index, field) in fields.enumerate() {
            let member = field
                .ident
                .clone()
                .map_or_else(|| Member::Unnamed(Index::from(index)), Member::Named);
            each_key(ATTRIBUTE, &field.attrs, |meta| {
                match key(meta).as_str() {
                "id" => once(&mut marked.id, meta, (member.clone(), field.ty.span())),
                "state" => once(&mut marked.state, meta, (member.clone(), argument_of_durable(&field.ty)?)),
                other => Err(meta.error(format!(
                    "`{other}` has no meaning on a field, which can be the `id` or the `state`; other keys belong on \
                     the struct"
                ))),
            }
            })?;
        }
        Ok(marked)
    }
}

fn once<T>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>, field: T) -> Result<()> {
    if !meta.input.is_empty() && !meta.input.peek(Token![,]) {
        return Err(meta.input.error(format!("write `#[persistent({})]`", key(meta))));
    }
    match slot.replace(field) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("two fields are the `{}`; keep one of them", key(meta)))),
    }
}

fn argument_of_durable(field: &Type) -> Result<Type> {
    let argument = match field {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
    .filter(|segment| segment.ident == "Durable")
    .and_then(|segment| match &segment.arguments {
        PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => arguments.args.first(),
        _ => None,
    });
    match argument {
        Some(GenericArgument::Type(model)) => Ok(model.clone()),
        _ => Err(Error::new(
            field.span(),
            "the state is kept by a `Durable`: write `Durable<Self>`, or `Durable<Model>` where the model is a type of \
             its own",
        )),
    }
}

/// What the attributes of the struct say.
struct Options {
    krate: Path,
    id: Option<LitStr>,
    id_with: Option<ExprPath>,
    mailbox: Option<LitInt>,
    hooks: bool,
    /// Calls of builder methods.
    calls: Vec<TokenStream>,
    backoff: Option<TokenStream>,
}

const KEYS: &str = "`id`, `id_with`, `snapshot_every`, `keep`, `delete_events`, `strict`, `max_waiting`, \
     `max_waiting_bytes`, `append_limits`, `recovery_idle_timeout`, `unknown_wait`, `backoff`, `passivate_after`, \
     `delivers`, `accept_deleted_prefix`, `mailbox`, `hooks` and `crate`";

impl Options {
    fn of(input: &DeriveInput) -> Result<Self> {
        let (mut krate, mut id, mut id_with, mut mailbox, mut hooks) = (None, None, None, None, None);
        let (mut snapshots, mut behind_snapshots, mut backoff) = (None, None, None);
        let mut seen = Vec::new();
        let mut calls = Vec::new();
        each_key(ATTRIBUTE, &input.attrs, |meta| {
            let key = key(meta);
            match key.as_str() {
                "crate" => return set(&mut krate, meta, value(meta, "crate = path::of::a::module")?),
                "id" => return set(&mut id, meta, parse_id(meta)?),
                "id_with" => {
                    return set(
                        &mut id_with,
                        meta,
                        value(meta, "id_with = path::of::a::function")?,
                    );
                }
                "mailbox" => return set(&mut mailbox, meta, number(meta, "mailbox = 16")?),
                "hooks" => return set(&mut hooks, meta, flag(meta)?),
                "backoff" => return set(&mut backoff, meta, parse_backoff(meta)?),
                _ => {}
            }
            let method = format_ident!("{}", key_as_ident(&key));
            let call = match key.as_str() {
                "snapshot_every" => {
                    snapshots = Some(());
                    let events = number(meta, "snapshot_every = 100")?;
                    quote!(.#method(#events))
                }
                "keep" | "delete_events" => {
                    behind_snapshots.get_or_insert_with(|| {
                        meta.error(format!(
                            "`{key}` is about snapshots; say how often they are taken: `snapshot_every = 100`"
                        ))
                    });
                    if key == "keep" {
                        let snapshots = number(meta, "keep = 2")?;
                        quote!(.#method(#snapshots))
                    } else {
                        flag(meta)?;
                        quote!(.#method())
                    }
                }
                "max_waiting" | "max_waiting_bytes" => {
                    let limit = number(meta, &format!("{key} = 4096"))?;
                    quote!(.#method(#limit))
                }
                "append_limits" => {
                    let (events, bytes) = pair::<LitInt>(meta, "append_limits(1000, 1048576)")?;
                    let (events, bytes) = (not_zero(events)?, not_zero(bytes)?);
                    quote!(.#method(#events, #bytes))
                }
                "recovery_idle_timeout" | "unknown_wait" | "passivate_after" => {
                    let text: LitStr = value(meta, &format!("{key} = \"30s\""))?;
                    let duration = duration(&text)?;
                    quote!(.#method(#duration))
                }
                "strict" | "delivers" | "accept_deleted_prefix" => {
                    flag(meta)?;
                    quote!(.#method())
                }
                unknown => {
                    return Err(meta.error(format!("unknown key `{unknown}`; the keys are {KEYS}")));
                }
            };
            if seen.contains(&key) {
                return Err(meta.error(format!("`{key}` is given twice; keep one of them")));
            }
            seen.push(key);
            calls.push(call);
            Ok(())
        })?;
        if let (None, Some(error)) = (snapshots, behind_snapshots) {
            return Err(error);
        }
        Ok(Self {
            krate: krate.unwrap_or_else(|| parse_quote!(::actor_journal::actix)),
            id,
            id_with,
            mailbox,
            hooks: hooks.is_some(),
            calls,
            backoff,
        })
    }

    fn method(&self) -> Option<TokenStream> {
        let Self {
            krate,
            calls,
            backoff,
            ..
        } = self;
        let backoff = backoff
            .as_ref()
            .map(|waits| quote!(.backoff(#krate::derived::Backoff { #waits })));
        if calls.is_empty() && backoff.is_none() {
            return None;
        }
        let options = quote!(#krate::derived::Options<Self::Model>);
        Some(quote! {
            fn options(options: #options) -> #options {
                options #(#calls)* #backoff
            }
        })
    }

    fn hooks(&self) -> TokenStream {
        let Self { krate, .. } = self;
        let context = quote!(context: &mut #krate::actix::Context<Self>);
        let mailbox = self
            .mailbox
            .as_ref()
            .map(|capacity| quote!(context.set_mailbox_capacity(#capacity);));
        let hook = quote!(<Self as #krate::PersistentHooks>);
        let starting = self.hooks.then(|| quote!(#hook::starting(self, context);));
        let on_starting = (mailbox.is_some() || starting.is_some()).then(|| {
            quote! {
                fn on_starting(&mut self, #context) {
                    #mailbox
                    #starting
                }
            }
        });
        let others = self.hooks.then(|| {
            quote! {
                fn on_recovered(&mut self, #context) {
                    #hook::recovered(self, context);
                }

                fn on_recovery_failed(&mut self, error: &#krate::derived::RecoveryError, #context) {
                    #hook::recovery_failed(self, error, context);
                }

                fn on_stopped(&mut self, #context) {
                    #hook::stopped(self, context);
                }
            }
        });
        quote!(#on_starting #others)
    }
}

/// Any text as an identifier; a key that is none is unknown and never called.
fn key_as_ident(key: &str) -> &str {
    if syn::parse_str::<Ident>(key).is_ok() {
        key
    } else {
        "unknown"
    }
}

fn parse_id(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let id: LitStr = value(meta, "id = \"its-name\"")?;
    if id.value().is_empty() {
        return Err(Error::new(id.span(), "the persistence id is empty; write a name"));
    }
    Ok(id)
}

/// A key without a value.
fn flag(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.is_empty() || meta.input.peek(Token![,]) {
        Ok(())
    } else {
        let key = key(meta);
        Err(meta.input.error(format!(
            "`{key}` has no value; write `#[persistent({key})]`, or leave it out"
        )))
    }
}

fn number(meta: &ParseNestedMeta<'_>, example: &str) -> Result<LitInt> {
    not_zero(value(meta, example)?)
}

fn not_zero(number: LitInt) -> Result<LitInt> {
    match number.base10_parse::<u64>() {
        Ok(0) => Err(Error::new(
            number.span(),
            "0 has no meaning here; leave the key out, or write at least 1",
        )),
        Ok(_) => Ok(number),
        Err(error) => Err(error),
    }
}

fn pair<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<(T, T)> {
    let read = || {
        let content;
        parenthesized!(content in meta.input);
        let first = content.parse()?;
        content.parse::<Token![,]>()?;
        let second = content.parse()?;
        if content.is_empty() {
            Ok((first, second))
        } else {
            Err(content.error("two are enough"))
        }
    };
    read().map_err(|error: Error| Error::new(error.span(), format!("write `{example}`")))
}

fn parse_backoff(meta: &ParseNestedMeta<'_>) -> Result<TokenStream> {
    let (first, last) = pair::<LitStr>(meta, "backoff(\"200ms\", \"30s\")")?;
    if millis(&first)? > millis(&last)? {
        return Err(Error::new(
            last.span(),
            "the longest wait is shorter than the shortest; write `backoff(\"200ms\", \"30s\")`",
        ));
    }
    let (shortest, longest) = (duration(&first)?, duration(&last)?);
    Ok(quote!(shortest: #shortest, longest: #longest))
}

fn duration(text: &LitStr) -> Result<TokenStream> {
    let millis = millis(text)?;
    Ok(quote!(::core::time::Duration::from_millis(#millis)))
}

fn millis(text: &LitStr) -> Result<u64> {
    let written = text.value();
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    units
        .iter()
        .find_map(|(unit, millis)| {
            let number: u64 = written.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(*millis).filter(|millis| *millis > 0)
        })
        .ok_or_else(|| {
            Error::new(
                text.span(),
                "write a time above zero in `ms`, `s`, `m` or `h`, for example `\"30s\"`",
            )
        })
}
