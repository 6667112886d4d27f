//! Derive macros of actor-journal. Each one stands in a file of its own.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use syn::{DeriveInput, parse_macro_input};

mod attribute;
mod event;

/// Implements `Event` for a struct or an enum.
///
/// ```
/// # use journal_core::Tag;
/// # use journal_derive::Event;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(manifest = "account-event", version = 1, tags("account"), tags_with = AccountEvent::more_tags)]
/// # #[event(crate = journal_core)]
/// enum AccountEvent {
///     Opened { currency: String },
///     #[event(tags("money"))]
///     Deposited { cents: u64 },
/// }
///
/// impl AccountEvent {
///     fn more_tags(&self) -> Vec<Tag> {
///         match self {
///             Self::Opened { currency } => vec![Tag::from(currency.as_str())],
///             Self::Deposited { .. } => Vec::new(),
///         }
///     }
/// }
/// ```
///
/// | key | on | is |
/// |---|---|---|
/// | `manifest = "text"` | type | the name under which events are stored; required, because a type that is renamed must keep it |
/// | `version = 1` | type | the version of the schema, from 1; left out, it is 0, undeclared |
/// | `tags("a", "b")` | type, variant | the tags of each event; a variant's are added to those of the type |
/// | `tags_with = path` | type | a `fn(&Self) -> Vec<Tag>` whose tags are added |
/// | `upcasters = path` | type | a `fn() -> Upcasters<Self>` that reads old versions |
/// | `crate = path` | type | where `Event`, `Tag` and `Upcasters` are; left out, it is `::actor_journal` |
///
/// A type with generic parameters is refused: its instances are different types and would share one manifest.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(event::derive(&input))
}

fn finish(derived: syn::Result<Tokens>) -> TokenStream {
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}
