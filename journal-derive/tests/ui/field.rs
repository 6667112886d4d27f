use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a")]
struct OfStruct {
    #[event(tags("a"))]
    field: u64,
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a")]
enum OfVariant {
    A(#[event(tags("a"))] u64),
}

fn main() {}
