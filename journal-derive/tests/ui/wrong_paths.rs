use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", tags_with = |event| vec![])]
struct Closure;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", upcasters = "upcasters")]
struct Text;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", crate = "journal_core")]
struct TextCrate;

fn main() {}
