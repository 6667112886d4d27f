//! Derive macros of actor-journal. Each one stands in a file of its own.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use syn::{DeriveInput, parse_macro_input};

mod attribute;
mod event;
mod persistent_actor;

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

/// Makes an actix actor with a `Durable` field persistent: implements `PersistentActor`, `actix::Actor`,
/// `actix::Supervised` and one `actix::Handler` for everything that the actor is a `PersistentHandler` of. Handlers of
/// messages that persist nothing are written beside it, as for any actor.
///
/// ```
/// # use journal_core::{Command, Effect, Effects, EventSourced, Handles, MemoryJournal, PersistError, Persistence};
/// # use journal_derive::{Event, PersistentActor};
/// # use actix::prelude::*;
/// # use journal_actix::Durable;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(manifest = "deposited", version = 1, crate = journal_core)]
/// # struct Deposited { cents: u64 }
/// #[derive(PersistentActor)]
/// #[persistent(strict, max_waiting = 100)]
/// # #[persistent(crate = journal_actix)]
/// struct Account {
///     #[persistent(id)]
///     id: String,
///     #[persistent(state)]
///     balance: Durable<Self>,
///     pings: u64,
/// }
/// # impl EventSourced for Account {
/// #     type Event = Deposited;
/// #     type State = u64;
/// #     fn apply(balance: &mut u64, event: &Deposited) { *balance += event.cents; }
/// # }
/// # #[derive(Message)]
/// # #[rtype(result = "Result<u64, PersistError>")]
/// # struct Deposit { cents: u64 }
/// # impl Command for Deposit { type Reply = Result<u64, PersistError>; }
/// # impl Handles<Deposit> for Account {
/// #     fn handle(&self, _: &u64, deposit: Deposit) -> Effect<Self, Result<u64, PersistError>> {
/// #         self.persist(Deposited { cents: deposit.cents }).then_reply(|balance| Ok(*balance))
/// #     }
/// # }
/// # #[actix::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let persistence = Persistence::builder(MemoryJournal::new()).build()?;
/// let account = Account { id: "account|42".to_owned(), balance: Durable::new(&persistence), pings: 0 }.start();
/// assert_eq!(account.send(Deposit { cents: 5 }).await??, 5);
/// # Ok(())
/// # }
/// ```
///
/// | key of the type | is |
/// |---|---|
/// | `id = "text"` | the persistence id of an actor that exists once; or `id_with = path`, a `fn(&Self) -> String`; or a field |
/// | `snapshot_every = 100` | a snapshot whenever the number passes a multiple |
/// | `keep = 2` | how many snapshots are kept |
/// | `delete_events` | deletes events behind the oldest kept snapshot |
/// | `strict` | one write at a time |
/// | `max_waiting = 4096`, `max_waiting_bytes = 16777216` | how much may wait before callers get `Overloaded` |
/// | `append_limits(1000, 1048576)` | events and bytes of one append |
/// | `recovery_idle_timeout = "30s"`, `unknown_wait = "30s"` | times, in `ms`, `s`, `m` or `h` |
/// | `backoff("200ms", "30s")` | the shortest and the longest wait between restarts |
/// | `passivate_after = "5m"` | makes room when it was idle for so long |
/// | `delivers` | the model `Delivers`: at-least-once delivery |
/// | `accept_deleted_prefix` | for events that another program deleted on purpose |
/// | `mailbox = 16` | the capacity of the mailbox |
/// | `hooks` | the actor implements `PersistentHooks` |
/// | `crate = path` | where `Durable` and `actix` are; left out, it is `::actor_journal::actix` |
///
/// Each option is also a method of `Options`, for one actor: `Durable::new(..).options(|options| options.strict())`.
///
/// | key of a field | is |
/// |---|---|
/// | `id` | the persistence id, anything that is `Display` |
/// | `state` | the `Durable<Self>`, or the `Durable<Model>` of a model that is a type of its own |
#[proc_macro_derive(PersistentActor, attributes(persistent))]
pub fn derive_persistent_actor(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(persistent_actor::derive(&input))
}

fn finish(derived: syn::Result<Tokens>) -> TokenStream {
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}
