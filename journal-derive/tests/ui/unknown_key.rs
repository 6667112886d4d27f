use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", name = "b")]
struct Unknown;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", a::b)]
struct AtPath;

#[derive(Serialize, Deserialize, Event)]
#[event("a")]
struct NoKey;

#[derive(Serialize, Deserialize, Event)]
#[event]
struct NoParentheses;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a")]
enum OnVariant {
    #[event(manifest = "b")]
    A,
}

fn main() {}
